"""Removing neurons of feed-forward layers for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from methods.heads.layouts import UnsupportedArchitecture
from methods.heads.linear import Linear, features, is_linear, select_inputs, select_outputs, update_features
from methods.heads.remove import replace_parameters


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


def remove_neurons(
    model: nn.Module, keep: Mapping[str, Sequence[int] | torch.Tensor], *, in_place: bool = False
) -> nn.Module:
    """Remove all neurons but those to keep, and return the smaller model.

    keep: for each feed-forward layer, by name, the indices of the neurons that stay, or a BoolTensor (width,). All
    layers are listed. Otherwise as ``remove_heads``.

    Raises ValueError for an unknown or missing layer, or for neurons that it does not have.
    """
    mlps = find_mlps(model)
    if keep.keys() != {mlp.name for mlp in mlps}:
        odd = sorted(keep.keys() ^ {mlp.name for mlp in mlps})
        raise ValueError(f"keep must list every feed-forward layer and no other; it differs in {', '.join(odd)}")
    kept = {mlp.name: _indices(mlp, keep[mlp.name]) for mlp in mlps}
    narrowed: dict[int, nn.Parameter] = {}
    for mlp in mlps:
        rows = kept[mlp.name]
        output = cast(Linear, model.get_submodule(mlp.output))
        if isinstance(output, Conv1D) and not len(rows):
            raise ValueError(f"{mlp.name} must keep a neuron: Conv1D cannot run without inputs")
        outputs = torch.cat([rows, rows + mlp.width]) if mlp.halves else rows
        for name in mlp.inputs:
            narrowed |= select_outputs(cast(Linear, model.get_submodule(name)), outputs)
        narrowed |= select_inputs(output, rows)
    smaller = replace_parameters(model, narrowed, in_place=in_place)
    for mlp in mlps:
        for name in (*mlp.inputs, mlp.output):
            update_features(cast(Linear, smaller.get_submodule(name)))
        module: Any = smaller.get_submodule(mlp.name)
        if hasattr(module, "intermediate_size"):
            module.intermediate_size = len(kept[mlp.name])
    return smaller


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
