"""The figure and the tables of docs/speed.md, from the lines that ``speedup.py`` measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from shapes import SHAPES, cache_bytes, pruned, weight_bytes  # beside this file
from studied import empty_figure, save  # beside this file

FIGURE = Path(__file__).with_name("speedup.svg")
PAGE = Path(__file__).parents[1] / "speed.md"
RUNTIMES = {"eager": "eager", "compiled": "compiled", "onnx": "ONNX Runtime"}
SHARES = ("0.25", "0.5", "0.75")
CONTEXTS = (1, 8, 32, 128)  # thousands of tokens
Lines = Sequence[Mapping[str, str]]
Key = tuple[str, str, str, str]  # shape, step, runtime, batch


def write_page(lines: Lines) -> None:
    """Draw the figure, and replace what is between the marks of a table on the page."""
    _draw(lines)
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(lines).items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        text = f"{before}<!-- {name} -->\n{table}{end}{after}"
    PAGE.write_text(text, encoding="utf-8")


def tables(lines: Lines) -> dict[str, str]:
    """Markdown by name of the table."""
    return {
        "speed-ups": _table(
            ["shape", "pass", "batch", "runtime", "ms", "25 %", "50 %", "75 %", "50 %, uneven"], _speed_ups(lines)
        ),
        "bounds": _table(
            ["shape", "pass", "batch", "operations: 25 %", "50 %", "75 %", "bytes: 25 %", "50 %", "75 %"],
            _bounds(lines),
        ),
        "memory": _table(
            ["shape", "heads removed", "weights, MB", *(f"{each}k tokens, MB" for each in CONTEXTS)], memory()
        ),
    }


def _table(heading: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _times(lines: Lines) -> dict[Key, dict[tuple[str, str], float]]:
    """Milliseconds by what was removed, and from where."""
    found: dict[Key, dict[tuple[str, str], float]] = {}
    for line in lines:
        key = (line["shape"], line["step"], line["runtime"], line["batch"])
        found.setdefault(key, {})[line["removed"], line["spread"]] = float(line["milliseconds"])
    return found


def _speed_ups(lines: Lines) -> Iterator[list[str]]:
    times = _times(lines)
    for name, shape in SHAPES.items():
        for step in shape.steps:
            for batch in ("1", "8", "32"):
                for runtime, word in RUNTIMES.items():
                    of = times[name, step.name, runtime, batch]
                    whole = of["0.0", "even"]
                    gained = [f"{whole / of[share, 'even']:.2f}" for share in SHARES]
                    uneven = f"{whole / of['0.5', 'uneven']:.2f}"
                    shown = f"{whole:,.0f}" if whole >= 100 else f"{whole:.1f}"
                    yield [shape.title, step.name, batch, word, shown, *gained, uneven]


def _bounds(lines: Lines) -> Iterator[list[str]]:
    """By what factor operations, and the bytes that have to be read, shrink."""
    for name, shape in SHAPES.items():
        for step in shape.steps:
            key = (name, step.name)
            caches = any(float(line["cache_mb"]) for line in lines if (line["shape"], line["step"]) == key)
            for texts in (1, 32) if caches else (1,):
                found = [_fewer(lines, name, step.name, texts)[share] for share in SHARES]
                columns = [f"{factors[what]:.2f}" for what in (0, 1) for factors in found]
                yield [shape.title, step.name, str(texts) if caches else "any", *columns]


def _fewer(lines: Lines, name: str, step: str, texts: int) -> dict[str, tuple[float, float]]:
    """By what factor operations and bytes of a pass for so many texts shrink, by the share of heads removed evenly."""
    of = {
        line["removed"]: (float(line["flops"]), float(line["weights_mb"]) + texts * float(line["cache_mb"]))
        for line in lines
        if (line["shape"], line["step"], line["spread"]) == (name, step, "even")
    }
    operations, read = of["0.0"]
    return {removed: (operations / each[0], read / each[1]) for removed, each in of.items()}


def memory() -> Iterator[list[str]]:
    """Weights and keys and values of one text in two bytes a number, of whole models that are never filled."""
    for name, shape in SHAPES.items():
        with torch.device("meta"):
            model = shape.model(shape.whole, shape.vocabulary)
        for removed in (0.0, 0.25, 0.5, 0.75):
            smaller = pruned(model, removed, "even")
            cached = ["–" for _ in CONTEXTS]
            if name.startswith("llama"):
                cached = [f"{cache_bytes(smaller, 1024 * each) / 2**20:,.0f}" for each in CONTEXTS]
            yield [shape.title, f"{100 * removed:.0f} %", f"{weight_bytes(smaller) / 2 / 2**20:,.0f}", *cached]


def _draw(lines: Lines) -> None:
    """Speed-up against what was removed, a panel for each pass, at batch size 8."""
    times = _times(lines)
    panels = [(name, step) for name, shape in SHAPES.items() for step in shape.steps]
    figure = empty_figure(9, 4.6)
    axes = figure.subplots(2, 4, sharex=True, sharey=True)
    shares = ("0.0", *SHARES)
    for place, (axis, (name, step)) in enumerate(zip(axes.flat, panels, strict=False)):
        for runtime, word in RUNTIMES.items():
            of = times[name, step.name, runtime, "8"]
            gained = [of["0.0", "even"] / of[share, "even"] for share in shares]
            axis.plot([100 * float(share) for share in shares], gained, marker="o", markersize=3, label=word)
        fewer = _fewer(lines, name, step.name, 8)
        places = [100 * float(share) for share in shares]
        for what, (style, label) in enumerate((("k--", "fewer operations"), ("k:", "fewer bytes"))):
            axis.plot(places, [fewer[share][what] for share in shares], style, linewidth=1, label=label)
        axis.set_title(f"{SHAPES[name].title}\n{step.name}", fontsize=8)
        axis.set_xticks([0, 25, 50, 75])
        if place >= len(panels) - 4:
            axis.set_xlabel("heads removed (%)")
            axis.tick_params(labelbottom=True)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel("times as fast")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center", frameon=False)
    save(figure, FIGURE)
