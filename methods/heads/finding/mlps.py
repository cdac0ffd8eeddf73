"""Finding a model's feed-forward layers by their structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import nn

from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.linear import Linear, features, is_linear


@dataclass(frozen=True)
class MlpLayout:
    """Names of a feed-forward layer's projections, relative to the module that holds them.

    halves: one module computes both gate and values; its outputs are first those of one, then those of the other.
    """

    inputs: tuple[str, ...]
    output: str
    halves: bool = False


MLP_LAYOUTS = (
    MlpLayout(("intermediate.dense",), "output.dense"),  # BERT and similar models, MPNet
    MlpLayout(("ffn",), "ffn_output"),  # ALBERT
    MlpLayout(("lin1",), "lin2"),  # DistilBERT
    MlpLayout(("gate_proj", "up_proj"), "down_proj"),  # Llama and similar models
    MlpLayout(("gate_up_proj",), "down_proj", halves=True),  # Phi-3
    MlpLayout(("Wi",), "Wo", halves=True),  # ModernBERT
    MlpLayout(("c_fc",), "c_proj"),  # GPT-2
    MlpLayout(("dense_h_to_4h",), "dense_4h_to_h"),  # GPT-NeoX
    MlpLayout(("fc_in",), "fc_out"),  # GPT-J, CodeGen
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
    """The feed-forward layers of ``model``, in the order in which the model registers them; tied layers count once.

    They are known by the names of their projections (``MLP_LAYOUTS``). Others are not found, and stay whole: among them
    routed experts whose weights are one parameter, beside which a shared expert may be found.

    Raises UnsupportedArchitecture if there is none, or if the shapes of a layer's projections do not fit together.
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


def check_names(mlps: tuple[Mlp, ...], given: Mapping[str, Any], what: str) -> None:
    """Raise ValueError, naming ``what``, unless the keys of ``given`` are exactly the names of ``mlps``."""
    if odd := sorted(given.keys() ^ {mlp.name for mlp in mlps}):
        raise ValueError(
            f"{what} must list every feed-forward layer and no other; missing or unknown: {', '.join(odd)}"
        )
