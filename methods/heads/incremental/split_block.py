"""A block run in two parts: the attention, which mixes positions, and the rest, which takes each one by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.finding.layouts import ROLES
from methods.heads.finding.site import Site


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Inside, the module runs ``forward(its own forward, *args, **kwargs)``; its hooks are run as ever."""
    own = vars(module).get("forward")
    module.forward = partial(forward, module.forward)
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


class _Reached(Exception):
    """The contexts of the heads are there; what follows in the block is not wanted."""


class SplitBlock:
    """The block that holds ``site``, its only one. That its two parts make the whole is for the caller to try."""

    def __init__(self, model: nn.Module, site: Site) -> None:
        self._attention = model.get_submodule(site.name)
        self._output = model.get_submodule(site.output)
        query, *others = (site.projections[role] for role in ROLES)
        self._query = None if query in others else model.get_submodule(query)  # None where it is fused with others
        self._projects = site.output.startswith(f"{site.name}.")  # whether the attention holds its output projection
        self._length = 0  # of the tuple that the attention returns; 0 where it is a tensor
        self._seen: Tensor | None = None  # contexts of the run under way

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, the parts may be run; but ``rest`` only after the block, as what attention returns has to be seen."""

        def look(module: nn.Module, args: tuple, output: Any) -> None:
            self._length = len(output) if isinstance(output, tuple) else 0

        def see(module: nn.Module, args: tuple) -> None:
            self._seen = args[0]

        hooks = self._attention.register_forward_hook(look), self._output.register_forward_pre_hook(see, prepend=True)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def whole(self, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor | None, Any]:
        """Contexts, as from ``context``, None where there are none; and the block's output."""
        self._seen = None
        output = forward(*args, **kwargs)
        context, self._seen = self._seen, None
        return context, output

    def context(self, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor | None, Any]:
        """Contexts of the heads, (B, T, H * d_h), before any gate, from the arguments of the block; and None.

        None and the block's output where the output projection does not run, as in some models without a head there.
        """

        def stop(module: nn.Module, args: tuple) -> None:
            raise _Reached(args[0])

        hook = self._output.register_forward_pre_hook(stop, prepend=True)
        try:
            return None, forward(*args, **kwargs)
        except _Reached as reached:
            return reached.args[0], None
        finally:
            hook.remove()

    def rest(
        self, forward: Callable[..., Any], hidden: Tensor, context: Tensor, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        """Output of the block, (B', T', d), for any examples and positions of ``hidden`` and of ``context``.

        args, kwargs: of the block; ``hidden`` takes the place of the first. Masks and the like need not fit, as they
        are read by the attention alone.
        """
        if args:
            args = hidden, *args[1:]
        else:
            kwargs = {**kwargs, "hidden_states": hidden}
        with replaced(self._attention, lambda own, *args, **kwargs: self._attended(context)):
            return forward(*args, **kwargs)

    @contextmanager
    def querying(self, read: Tensor | None, trial: bool) -> Iterator[None]:
        """Inside, the attention asks at the positions ``read``, (B,), alone; at others its contexts mean nothing.

        read: None for all positions. trial: queries at the others are NaN; else they are those of the position that is
        read, which takes no products.
        """
        if read is None or self._query is None:
            yield
            return

        def narrowed(own: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
            length = hidden.shape[1]
            if trial:
                return spread(read, at(read, own(hidden)), length)
            return own(at(read, hidden)).repeat(1, length, 1)

        with replaced(self._query, narrowed):
            yield

    @contextmanager
    def projecting(self, project: Callable[[nn.Module, Callable[[Tensor], Tensor], Tensor], Tensor]) -> Iterator[None]:
        """Inside, the output projection runs ``project(it, its own forward, contexts)``."""
        with replaced(self._output, partial(project, self._output)):
            yield

    def _attended(self, context: Tensor) -> Any:
        result = self._output(context) if self._projects else context
        return (result, *[None] * (self._length - 1)) if self._length else result


def at(positions: Tensor, values: Tensor) -> Tensor:
    """Of each example the one position: (n * B, T, d), which may be copies of a batch, to (n * B, 1, d).

    positions: LongTensor (B,).
    """
    return values[_everyone(values), positions.repeat(len(values) // len(positions))][:, None]


def spread(positions: Tensor, values: Tensor, length: int) -> Tensor:
    """The inverse of ``at``: (n * B, 1, d) to (n * B, length, d), with NaN wherever else; to read that would show."""
    everywhere = values.new_full((len(values), length, values.shape[2]), torch.nan)
    everywhere[_everyone(values), positions.repeat(len(values) // len(positions))] = values[:, 0]
    return everywhere


def _everyone(values: Tensor) -> Tensor:
    return torch.arange(len(values), device=values.device)


def first_token(inputs: dict[str, Any], batch: int, length: int) -> Tensor:
    """Position of each example that most encoders classify by, (batch,)."""
    return torch.zeros(batch, dtype=torch.long)


def last_token(inputs: dict[str, Any], batch: int, length: int) -> Tensor:
    """Position of each example that most decoders classify by, (batch,): the last that is not padding."""
    mask = inputs.get("attention_mask")
    if mask is None:
        return torch.full((batch,), length - 1)
    places: Tensor = (mask != 0) * torch.arange(length, device=mask.device)
    return places.argmax(1)
