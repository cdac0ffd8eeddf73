"""Observing heads and neurons: attention maps, contexts, gradients and activations, one call at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from methods.heads.finding.head_map import HeadMap
from methods.heads.finding.mlps import find_mlps
from methods.heads.finding.site import Site
from methods.heads.orders.fused import ROLES
from methods.heads.watching.eager import eager_attention

Tensors = dict[str, torch.Tensor]


@contextmanager
def observed(
    model: nn.Module,
    heads: HeadMap | None = None,
    *,
    attention: Callable[[int, torch.Tensor], None] | None = None,
    context: Callable[[int, torch.Tensor], None] | None = None,
    gradients: Callable[[int, Tensors, Tensors], None] | None = None,
    neurons: Callable[[str, torch.Tensor], None] | None = None,
) -> Iterator[None]:
    """Inside, call back once for each call of each site, with the site's index in ``heads.sites``. Nothing is stored.

    Sites without heads are skipped.

    attention(site, rows): attention probabilities (B, H, T, S), in train mode after dropout, with their graph; with a
        sink (gpt-oss), the rest that it leaves. Runs the model's eager attention. The module's own output no longer
        holds them, so ``output_attentions`` gives None.
    context(site, z): each head's context (B, T, H, d_h) after the gates entered before, with its graph.
    gradients(site, inputs, grads): called during backward. ``inputs`` and ``grads`` are keyed "query", "key" and
        "value": the projection's input (B, T, d), detached, and the gradient at its output (B, T, heads, width), where
        heads is H for the query and the number of key/value heads for the others, and width is d_h but for latent
        attention and for queries that come with a gate (``Site.widths``). In cross attention T is the
        source's length for key and value; where positions run through the same projections (DeBERTa-v3), they follow
        the tokens. No parameter requires a gradient inside, so none gets one.
    neurons(name, values): input of the down projection of the feed-forward layer of that name, (B, T, width) or, in
        OPT, (B * T, width), after the gates entered before, with its graph. Once for each call of the layer.

    The model is restored on exit, also after an error. Raises ValueError for gradients under gradient checkpointing.
    """
    if heads is None:
        heads = HeadMap.of(model)
    else:
        heads.check_model(model)
    if gradients is not None and any(vars(module).get("gradient_checkpointing") for module in model.modules()):
        raise ValueError("gradients cannot be observed under gradient checkpointing, which runs every site twice")
    with ExitStack() as stack:
        if attention is not None:
            stack.enter_context(eager_attention(model, [site for site in heads.sites if site.num_heads]))
        if gradients is not None:
            stack.enter_context(_frozen(model))
        for index, site in enumerate(heads.sites):
            if not site.num_heads:
                continue
            module = model.get_submodule(site.name)
            if attention is not None and site.layout.windows:
                raise ValueError(f"{type(module).__name__} attends within windows and has no maps of all tokens")
            if attention is not None:
                stack.callback(module.register_forward_hook(_attention_hook(index, attention)).remove)
            if context is not None:
                output = model.get_submodule(site.output)
                stack.callback(output.register_forward_pre_hook(_context_hook(index, site, context)).remove)
            if gradients is not None:
                _watch_gradients(model, index, site, gradients, stack)
        if neurons is not None:
            for mlp in find_mlps(model):
                hook = model.get_submodule(mlp.output).register_forward_pre_hook(_neurons_hook(mlp.name, neurons))
                stack.callback(hook.remove)
        yield


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Inside, no parameter requires a gradient."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _attention_hook(index: int, callback: Callable[[int, torch.Tensor], None]) -> Callable:
    def hook(module: nn.Module, args: Any, output: tuple) -> tuple:
        rows = output[-1]  # every family returns the probabilities last
        if not (isinstance(rows, torch.Tensor) and rows.dim() == 4):
            raise ValueError(f"{type(module).__name__} did not return its attention probabilities")
        callback(index, rows)
        return (*output[:-1], None)

    return hook


def _context_hook(index: int, site: Site, callback: Callable[[int, torch.Tensor], None]) -> Callable:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        z = args[0].unflatten(-1, (site.num_heads, site.head_dim))  # (B, T, H, d_h)
        callback(index, z)
        return (z.flatten(-2), *args[1:])  # computed from z, so that z has a gradient

    return hook


def _neurons_hook(name: str, callback: Callable[[str, torch.Tensor], None]) -> Callable:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        callback(name, args[0])

    return hook


class _Call:
    """One call of a site: its projections' inputs, and the gradients at their outputs until all are known."""

    def __init__(self, site: Site, deliver: Callable[[Tensors, Tensors], None]) -> None:
        self.site, self.deliver = site, deliver
        self.inputs: dict[tuple[str, int], torch.Tensor] = {}  # by role, and by how often the projection ran before
        self.grads: dict[tuple[str, int], torch.Tensor] = {}
        self.hooks: dict[tuple[str, int], weakref.ref[Callable]] = {}  # on the outputs; each goes with its output

    def receive(self, grads: dict[tuple[str, int], torch.Tensor]) -> None:
        self.grads.update(grads)
        for role, run in self.inputs.keys() - self.grads.keys():
            if self.hooks[role, run]() is None:  # the module uses no such output (DeBERTa-v3), so no gradient comes
                inputs = self.inputs[role, run]
                sizes = self.site.heads_of(role), self.site.widths[role]
                self.grads[role, run] = inputs.new_zeros(*inputs.shape[:2], *sizes)
        if self.grads.keys() == self.inputs.keys():
            grads, self.grads = self.grads, {}  # so that a second backward through the same graph starts from none
            self.deliver(_joined(self.inputs), _joined(grads))


def _joined(values: dict[tuple[str, int], torch.Tensor]) -> Tensors:
    """For each role, what its projection had to do with, one run after the other: (B, T, ...)."""
    runs = {role: [values[key] for key in sorted(values) if key[0] == role] for role in ROLES}
    return {role: torch.cat(parts, 1) if len(parts) > 1 else parts[0] for role, parts in runs.items()}


class _OfExamples(torch.Tensor):
    """Projected positions, one copy for each example already, so that each has a gradient of its own."""

    def repeat(self, *sizes: int) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor)


def _watch_gradients(
    model: nn.Module, index: int, site: Site, callback: Callable[[int, Tensors, Tensors], None], stack: ExitStack
) -> None:
    current: list[_Call] = []  # the running call of the site, if any

    def begin(module: nn.Module, args: Any) -> None:
        current[:] = [_Call(site, lambda inputs, grads: callback(index, inputs, grads))]

    def project(path: str) -> Callable:
        roles = [role for role in ROLES if site.projections[role] == path]

        def split(grad: torch.Tensor) -> Tensors:
            grad = grad.transpose(0, 1) if site.layout.time_first else grad
            return {role: site.of_heads(role, grad) for role in roles}

        def hook(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
            if not torch.is_grad_enabled():
                return None
            if not output.requires_grad:  # nothing before this site requires a gradient: backward may stop here
                output = output.detach().requires_grad_()
            call = current[0]
            run = sum(role == roles[0] for role, _ in call.inputs)
            keys = [(role, run) for role in roles]
            inputs = args[0].detach().transpose(0, 1) if site.layout.time_first else args[0].detach()
            inputs = inputs.flatten(1, 2) if inputs.dim() == 4 else inputs
            if run:  # positions, which are the same for all examples
                batch = len(call.inputs[roles[0], 0])
                inputs = inputs.expand(batch, -1, -1)
                output = output.expand(batch, -1, -1).as_subclass(_OfExamples)
            call.inputs |= dict.fromkeys(keys, inputs)

            def receive(grad: torch.Tensor) -> None:
                call.receive(dict(zip(keys, split(grad).values(), strict=True)))

            call.hooks |= dict.fromkeys(keys, weakref.ref(receive))
            output.register_hook(receive)
            return output.clone() if site.layout.scales_in_place else output

        return hook

    first = model.get_submodule(site.source or site.name)  # the keys of another layer are computed before
    stack.callback(first.register_forward_pre_hook(begin).remove)
    for path in dict.fromkeys(site.projections.values()):
        stack.callback(model.get_submodule(path).register_forward_hook(project(path)).remove)
    stack.callback(current.clear)
