"""The card of a pruned checkpoint: what was removed, by which method, at what cost and gain, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from bench.analysis.naming import calibration_in_words, count, fixed
from bench.records.provenance import provenance
from bench.report.tables.markdown import aligned, literal

LOAD = """\
## Load it

With headbench installed, from the folder that this one is in:

```python
from methods.heads import load_pruned
from transformers import AutoTokenizer
model, tokenizer = load_pruned({path!r}), AutoTokenizer.from_pretrained({path!r})
```
"""
PLAIN = """\
All layers have the same shape, so `from_pretrained` of transformers loads it as well, without headbench.
"""
UNEVEN = """\
`from_pretrained` of transformers does not load it: its configuration cannot describe these numbers of heads and
neurons.
"""


AGAIN = """\
## Make it again

```
{command}
```
{where}"""


class Spread(NamedTuple):
    """Milliseconds of a forward pass: the median and the middle half."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Times:
    """How long a forward pass of some models takes, and how busy the machine was."""

    milliseconds: Mapping[int, tuple[Spread, ...]]  # by batch size, of each model
    repeats: int
    device: str
    in_processor_time: bool  # instead of wall time
    waited: float  # share of the wall time in which other work kept the process from running, 0 to 1
    load: float  # average of the last minute before
    processors: int


@dataclass(frozen=True)
class Onnx:
    """What was exported; of each value, the first is of the checkpoint itself, the others of ``names``."""

    opset: int
    names: tuple[tuple[str, ...], ...]  # of the files of each version, the first in float32
    gap: float  # between checkpoint and the first version, relative to the scale of the logits
    inputs: str  # what is said of how they are called
    quality: tuple[float, ...]
    megabytes: tuple[float, ...]  # of the weights, then of the files
    times: Times


@dataclass(frozen=True)
class Pruned:
    """The facts on a card; pairs are (before, after)."""

    model: str
    task: str
    data: str
    about_data: str  # the user's: how it was read, and what the model is given of it; empty for data that are built in
    method: str  # with its options
    source: str
    seed: int
    calibration: int  # texts; 0 where the method read none
    calibration_from: str  # held-out or train
    trained: str  # how the method trained weights or gates; empty where it did not
    recovered: str  # a sentence on weights recovered without training; empty where none were
    kept: Mapping[str, Sequence[int]]  # query heads by attention module, in the numbering of the whole model
    heads: Mapping[str, int]  # query heads of each attention module before
    unpruned: Mapping[str, int]  # the same before any pruning, which may have been done in several steps
    neurons: Mapping[str, tuple[int, int]]  # (before any pruning, kept) by feed-forward layer, of those with fewer
    examples: int  # of the test split; 0 where texts are only scored
    guessing: float  # quality without reading them, 0 to 1; 0 where nothing can be guessed
    quality: tuple[float, float]
    quality_name: str
    at_chance: str  # a warning where the model before is no better than guessing
    metrics: Mapping[str, tuple[float, float]]  # of sub-tasks; empty where the task has none
    parameters: tuple[int, int]
    megabytes: tuple[float, float]
    times: Times
    gap: float  # between gated and smaller model, relative to the scale of the logits
    command: str  # that makes it again
    local: Sequence[str]  # parts of it with names of local files and folders, which do not say where these are
    tied: Mapping[str, int] = field(default_factory=dict)  # number of layers that share an attention module
    kinds: Sequence[str] = ()  # of attention that heads were removed from; empty for all
    uneven: float | None = None  # quality with as many units, chosen freely; None unless every layer keeps as many
    never_empty: int = 0  # attention modules that cannot run without any head
    own_number: bool = False  # whether the method itself chose how many heads to keep
    half: torch.dtype | None = None  # of 16 bits, which both models have on disk; None for that of the measured ones
    left_alone: Sequence[str] = ()  # parts of a composite model whose attention is not understood


def card(pruned: Pruned, name: str, plain: bool, onnx: Onnx | None = None) -> str:
    """The card, in Markdown, of what is saved in a folder called ``name``.

    plain: whether ``from_pretrained`` of transformers loads it too. onnx: what was exported as well.

    The command prints the part before ``## Load it``.
    """
    before, after = sum(pruned.heads.values()), sum(map(len, pruned.kept.values()))
    unpruned = sum(pruned.unpruned.values())
    first, second = (100 * value for value in pruned.quality)
    rows = [
        ["", "before", "after", "change"],
        [f"{pruned.quality_name} (%)", f"{first:.1f}", f"{second:.1f}", f"{fixed(second - first, 1, '+')} points"],
        *([literal(name), f"{a:.4g}", f"{b:.4g}", f"{b - a:+.4g}"] for name, (a, b) in pruned.metrics.items()),
        ["parameters", *(f"{each:,}" for each in pruned.parameters), _per_cent(*pruned.parameters)],
        ["MB (2^20 bytes)", *(f"{each:.2f}" for each in pruned.megabytes), _per_cent(*pruned.megabytes)],
    ]
    for size, (whole, smaller) in pruned.times.milliseconds.items():
        change = _per_cent(whole.median, smaller.median)
        rows.append([f"ms, batch {size}, {pruned.times.device}", _shown(whole), _shown(smaller), change])
    sites = [
        f"- {name}: {len(kept)} of {pruned.unpruned[name]}"
        + (f" ({', '.join(map(str, kept))})" if kept else "")
        + (f", in each of the {pruned.tied[name]} layers that share it" if name in pruned.tied else "")
        for name, kept in pruned.kept.items()
    ]
    neurons = [f"- {name}: {kept} of {whole}" for name, (whole, kept) in pruned.neurons.items()]
    fewer = ", and fewer neurons" if pruned.neurons else ""
    capitalized = pruned.quality_name[0].upper() + pruned.quality_name[1:]
    guessing = f", where guessing has {100 * pruned.guessing:.1f} %" if pruned.guessing else ""
    exactness = f"to {pruned.gap:.0e} of their scale" if pruned.gap else "exactly"
    return "\n".join(
        [
            f"# {literal(pruned.model)}, {after} of {unpruned} attention heads kept{fewer}",
            "",
            f"Pruned for {literal(pruned.task)} on {literal(pruned.data)} "
            f"by `{pruned.method}` ({pruned.source}), seed {pruned.seed}, "
            f"{pruned.trained or _read(pruned)}, "
            f"with headbench {provenance().packages['headbench']}. "
            + (f"{capitalized} is that of {pruned.examples} test examples{guessing}. " if pruned.examples else "")
            + f"The smaller model's logits are those of the gated one {exactness}."
            + (" The method itself chose how many heads to keep." if pruned.own_number else "")
            + (f" {pruned.recovered}" if pruned.recovered else "")
            + (f" Only heads of {' and '.join(pruned.kinds)} attention could go." if pruned.kinds else "")
            + (f" The model before had {before} of the {unpruned} heads left." if before < unpruned else ""),
            "",
            *([f"{literal(pruned.about_data)}.", ""] if pruned.about_data else []),
            aligned(rows),
            "",
            *([pruned.at_chance, ""] if pruned.at_chance else []),
            *([_price(pruned, pruned.uneven), ""] if pruned.uneven is not None else []),
            _explained(pruned.times),
            "",
            *([_halved(pruned.half), ""] if pruned.half else []),
            "Heads kept, by attention module:",
            "",
            *sites,
            "",
            *([_held(pruned), ""] if pruned.never_empty else []),
            *([_left_alone(pruned), ""] if pruned.left_alone else []),
            *(["Neurons kept, by feed-forward layer:", "", *neurons, ""] if neurons else []),
            *(_onnx(pruned, onnx) if onnx else []),
            LOAD.format(path=name),
            PLAIN if plain else UNEVEN,
            AGAIN.format(command=pruned.command, where=_where(pruned.local)),
        ]
    )


def _onnx(pruned: Pruned, onnx: Onnx) -> list[str]:
    """Lines of the section about ONNX files."""
    versions = [" and ".join(f"`onnx/{name}`" for name in names) for names in onnx.names]
    give = "gives" if len(onnx.names[0]) == 1 else "give"
    rows = [
        ["", "checkpoint", *versions],
        [f"{pruned.quality_name} (%)", *(f"{100 * each:.1f}" for each in onnx.quality)],
    ]
    rows.append(["MB (2^20 bytes)", *(f"{each:.2f}" for each in onnx.megabytes)])
    for size, spreads in onnx.times.milliseconds.items():
        rows.append([f"ms, batch {size}, {onnx.times.device}", *map(_shown, spreads)])
    return [
        "## ONNX",
        "",
        f"{versions[0]} (opset {onnx.opset}) {give} the logits of the checkpoint in float32 to {onnx.gap:.0e} of their "
        f"scale. {onnx.inputs} Layers without heads have no attention in it.",
        "",
        aligned(rows),
        "",
        f"Files run in ONNX Runtime, the checkpoint in torch, on as many threads. {_explained(onnx.times)}",
        "",
    ]


def _read(pruned: Pruned) -> str:
    """What the method read, in words."""
    if not pruned.calibration:
        return "reading no text"
    return f"on {calibration_in_words(pruned.calibration, pruned.calibration_from)}"


def _shown(times: Spread) -> str:
    return f"{times.median:.2f} ({times.low:.2f} to {times.high:.2f})"


def _explained(times: Times) -> str:
    """What the times on the card are, and how busy the machine was."""
    clock = "wall time"
    if times.in_processor_time:
        clock = f"processor time, as other work took {100 * times.waited:.0f} % of the wall time"
    return (
        f"Times: median of {times.repeats} forward passes, and the middle half of them, in {clock}. "
        f"Load average before them: {times.load:.1f} on {times.processors} processors."
    )


def _where(local: Sequence[str]) -> str:
    """What to fill in before the command works elsewhere: the folders of its author are not on the card."""
    if not local:
        return ""
    names = ", ".join(f"`{each}`" for each in local)
    return f"\nLocal files and folders, to be given with their paths: {names}.\n"


def _halved(half: torch.dtype) -> str:
    """In which type the model is saved, and in which it was measured."""
    name = str(half).removeprefix("torch.")
    return (
        f"Weights are saved in {name}, as those of the model before are, and MB are of that. Everything else was "
        "measured with the same weights in float32."
    )


def _held(pruned: Pruned) -> str:
    """Why some attention modules keep a unit that the method ranks low."""
    return (
        f"{pruned.never_empty} of {len(pruned.kept)} attention modules cannot run without any head, so the best unit "
        "of each stays, whatever its rank among all."
    )


def _left_alone(pruned: Pruned) -> str:
    """Which parts have other heads, which stay."""
    return f"All heads of {', '.join(pruned.left_alone)} stay, as attention there is not understood."


def _price(pruned: Pruned, uneven: float) -> str:
    """What it costs to keep the same number of heads in every layer."""
    each = {len(kept) for kept in pruned.kept.values()}
    return (
        f"Every attention module keeps {count(each.pop(), 'head')}. With as many heads chosen freely, where layers may "
        f"differ, the {pruned.quality_name} is {100 * uneven:.1f} %: the same number in every layer "
        f"makes a difference of {fixed(100 * (pruned.quality[1] - uneven), 1, '+')} points."
    )


def _per_cent(before: float, after: float) -> str:
    return f"{fixed(100 * (after / before - 1), 1, '+')} %"
