"""The neurons of feed-forward layers: found, gated, and removed for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from methods.heads.finding.layouts import UnsupportedArchitecture
from methods.heads.finding.linear import Linear, features, is_linear, select_inputs, select_outputs, update_features
from methods.heads.surgery.remove import replace_parameters


@dataclass(frozen=True)
class MlpLayout:
    """Names of a feed-forward layer's parts, relative to the module that holds them.

    Where ``halves``, one module computes gate and values: its outputs are those of one, then those of the other.
    """

    inputs: tuple[str, ...]
    output: str
    halves: bool = False


MLP_LAYOUTS = (
    MlpLayout(("intermediate.dense",), "output.dense"),  # BERT and its kin, MPNet
    MlpLayout(("ffn",), "ffn_output"),  # ALBERT
    MlpLayout(("lin1",), "lin2"),  # DistilBERT
    MlpLayout(("gate_proj", "up_proj"), "down_proj"),  # Llama and its kin
    MlpLayout(("gate_up_proj",), "down_proj", halves=True),  # Phi-3
    MlpLayout(("Wi",), "Wo", halves=True),  # ModernBERT
    MlpLayout(("c_fc",), "c_proj"),  # GPT-2
    MlpLayout(("dense_h_to_4h",), "dense_4h_to_h"),  # GPT-NeoX
    MlpLayout(("fc1",), "fc2"),  # Phi, OPT, BART, Marian, ViT
    MlpLayout(("wi_0", "wi_1"), "wo"),  # T5 with gates, mT5
    MlpLayout(("wi",), "wo"),  # T5
)


@dataclass(frozen=True)
class Mlp:
    """One feed-forward layer. ``output`` is the path of its down projection, whose inputs are the neurons."""

    name: str  # dotted path of the module that holds it
    width: int  # neurons now present
    inputs: tuple[str, ...] = field(repr=False)
    output: str = field(repr=False)
    halves: bool = field(repr=False)


def find_mlps(model: nn.Module) -> tuple[Mlp, ...]:
    """Every feed-forward layer of ``model``, in the order in which the model registers them. Tied layers are one.

    Raises UnsupportedArchitecture where there is none, or where the parts do not fit together.
    """
    modules = dict(model.named_modules())
    mlps = []
    for path, module in modules.items():
        for layout in MLP_LAYOUTS:
            inputs = [f"{path}.{name}" if path else name for name in layout.inputs]
            output = f"{path}.{layout.output}" if path else layout.output
            if not all(name in modules and is_linear(modules[name]) for name in (*inputs, output)):
                continue
            width = features(cast(Linear, modules[output]))[0]
            for name in inputs:
                if features(cast(Linear, modules[name]))[1] != (2 * width if layout.halves else width):
                    raise UnsupportedArchitecture(
                        f"{type(module).__name__} at {path}: {name} does not give the {width} inputs of {output}"
                    )
            mlps.append(Mlp(path, width, tuple(inputs), output, layout.halves))
    if not mlps:
        wanted = ", ".join("/".join((*layout.inputs, layout.output)) for layout in MLP_LAYOUTS)
        raise UnsupportedArchitecture(
            f"{type(model).__name__} has no feed-forward layer with projections named as one of: {wanted}"
        )
    return tuple(mlps)


@contextmanager
def gated_neurons(model: nn.Module, gates: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Inside, multiply each neuron by its gate, just before the down projection.

    gates: for each feed-forward layer, by name, float or bool (width,). 1 keeps, 0 removes. All layers are listed. May
    require grad. Contexts nest, also with ``gated``: gates multiply. The activations keep their dtype.

    Raises ValueError for an unknown or missing layer, or for gates of another shape or dtype.
    """
    mlps = find_mlps(model)
    check_names(mlps, gates, "gates")
    for mlp in mlps:
        gate = gates[mlp.name]
        if gate.shape != (mlp.width,) or not (gate.is_floating_point() or gate.dtype == torch.bool):
            raise ValueError(
                f"gates of {mlp.name} are float or bool of shape ({mlp.width},), "
                f"not {gate.dtype} of shape {tuple(gate.shape)}"
            )
    with ExitStack() as hooks:
        for mlp in mlps:
            hook = model.get_submodule(mlp.output).register_forward_pre_hook(_multiply(gates[mlp.name]))
            hooks.callback(hook.remove)
        yield


def _multiply(gate: torch.Tensor) -> Callable:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (args[0] * gate.to(args[0].device, args[0].dtype), *args[1:])  # (..., width)

    return hook


def remove_neurons(
    model: nn.Module, keep: Mapping[str, Sequence[int] | torch.Tensor], *, in_place: bool = False
) -> nn.Module:
    """Remove all neurons but those to keep, and return the smaller model.

    keep: for each feed-forward layer, by name, the indices of the neurons that stay, or a BoolTensor (width,). All
    layers are listed, and one may lose all its neurons. Otherwise as ``remove_heads``.

    Raises ValueError for an unknown or missing layer, or for neurons that it does not have.
    """
    mlps = find_mlps(model)
    check_names(mlps, keep, "keep")
    kept = {mlp.name: _indices(mlp, keep[mlp.name]) for mlp in mlps}
    narrowed: dict[int, nn.Parameter] = {}
    for mlp in mlps:
        rows = kept[mlp.name]
        outputs = torch.cat([rows, rows + mlp.width]) if mlp.halves else rows
        for name in mlp.inputs:
            narrowed |= select_outputs(cast(Linear, model.get_submodule(name)), outputs)
        narrowed |= select_inputs(cast(Linear, model.get_submodule(mlp.output)), rows)
    smaller = replace_parameters(model, narrowed, in_place=in_place)
    for mlp in mlps:
        for name in (*mlp.inputs, mlp.output):
            update_features(cast(Linear, smaller.get_submodule(name)))
        module: Any = smaller.get_submodule(mlp.name)
        if hasattr(module, "intermediate_size"):
            module.intermediate_size = len(kept[mlp.name])
        output: Any = smaller.get_submodule(mlp.output)
        if not isinstance(output, nn.Linear) and not len(kept[mlp.name]):
            output.forward = MethodType(_forward_without_inputs, output)
    return smaller


def _forward_without_inputs(self: Conv1D, x: torch.Tensor) -> torch.Tensor:
    """What Conv1D computes, without the view of its own that is ambiguous for no input: the bias, (..., d)."""
    return x @ self.weight + self.bias


def check_names(mlps: tuple[Mlp, ...], given: Mapping[str, Any], what: str) -> None:
    """Raise ValueError unless ``given``, called ``what``, has every one of ``mlps`` by name, and nothing else."""
    if odd := sorted(given.keys() ^ {mlp.name for mlp in mlps}):
        raise ValueError(f"{what} must list every feed-forward layer and no other; it differs in {', '.join(odd)}")


def _indices(mlp: Mlp, keep: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Ascending LongTensor of the neurons to keep."""
    chosen = torch.as_tensor(keep)
    if chosen.dtype == torch.bool:
        if chosen.shape != (mlp.width,):
            raise ValueError(f"a mask of {mlp.name} has shape ({mlp.width},), not {tuple(chosen.shape)}")
        return chosen.nonzero().flatten().cpu()
    indices = chosen.long().unique()
    if indices.numel() != chosen.numel() or (indices.numel() and not 0 <= indices[0] <= indices[-1] < mlp.width):
        raise ValueError(f"{mlp.name} has neurons 0 to {mlp.width - 1}, each of which can be kept once")
    return indices.cpu()
