"""Draw quality against what is removed, one column of panels a task."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.curves import curve, parameters_removed
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.figures.quality_axis import QualityAxis

# Okabe and Ito's colours, told apart without full colour vision; markers do the same in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
USUAL = ("none", "random")  # the controls that are drawn before any other
OTHERS, OTHER_STYLE = "other methods", {"color": "0.8", "linewidth": 0.7, "zorder": 1}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headbench",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(records: list[FinishedRecord]) -> bytes:
    """SVG with a panel for each task, by heads removed above and by parameters removed below.

    The best methods by area have colours, the controls without an inverse are dashed, all others are thin and grey. A
    band is one standard deviation over seeds. Methods that remove neurons too are drawn by parameters alone.
    """
    panels: dict[TaskKey, dict[str, list[FinishedRecord]]] = defaultdict(lambda: defaultdict(list))
    done = [record for record in records if isinstance(record, FinishedRecord)]
    for record in done:
        panels[record.task][record.cell.label].append(record)
    styles = _styles(done)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(panels), 7.2), layout="constrained")
        axes = figure.subplots(2, len(panels), squeeze=False)
        left = ""
        for column, (names, panel) in zip(axes.T, sorted(panels.items()), strict=True):
            scale = QualityAxis.of(next(iter(panel.values()))[0])
            _panel(column[0], _without_neurons(panel), styles, "heads", scale)
            _panel(column[1], panel, styles, "parameters", scale)
            for axis in column if scale.name != left else ():
                axis.set_ylabel(scale.name)
            left = scale.name
            column[0].set_title(f"{names[1]}\n{names[0]}, {names[2]}", fontsize=9)
        handles = {
            text: handle for axis in axes.flat for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        named = [label for label in (*styles, OTHERS) if label in handles]
        figure.legend(
            [handles[label] for label in named],
            named,
            loc="outside lower center",
            ncols=min(2 * len(panels), len(named)),
            frameon=False,
        )
        content = io.BytesIO()
        title = "Accuracy against the shares of heads and of parameters removed"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the viewer has its own fonts
            figure.savefig(content, format="svg", metadata={"Date": None, "Title": title})
    return content.getvalue()


def _styles(records: list[FinishedRecord]) -> dict[str, dict[str, Any]]:
    """How the lines that are told apart are drawn, best area first, then the controls.

    What removes neurons comes after all that do not: its area is of other shares of the model.
    """
    table = metrics_table(records).assign(neurons=lambda table: table["removes"] != "heads")
    areas = table.groupby(["neurons", "label", "control"])["area"].mean().reset_index()
    areas = areas.sort_values(["neurons", "area", "label"], ascending=[True, False, True], kind="stable")
    inverse = {r.cell.label for r in records if r.cell.options.get("inverse")}
    ranked = [(str(label), bool(control)) for label, control in zip(areas["label"], areas["control"], strict=True)]
    best = [label for label, control in ranked if not control][: len(COLOURS)]
    controls = [label for label, control in ranked if control and label not in inverse]
    controls = sorted(controls, key=lambda label: label.partition(":")[0] not in USUAL)[: len(DASHES)]
    styles: dict[str, dict[str, Any]] = {
        label: {"color": colour, "marker": marker, "linewidth": 1.6, "markersize": 4}
        for label, colour, marker in zip(best, COLOURS, MARKERS, strict=False)
    }
    return styles | {
        label: {"color": "0.25", "linestyle": dashes, "linewidth": 1.2}
        for label, dashes in zip(controls, DASHES, strict=False)
    }


def _without_neurons(panel: dict[str, list[FinishedRecord]]) -> dict[str, list[FinishedRecord]]:
    return {label: [r for r in records if not r.result.neurons] for label, records in panel.items()}


def _panel(
    axis, panel: dict[str, list[FinishedRecord]], styles: dict[str, dict], what: str, scale: QualityAxis
) -> None:
    for label, records in sorted(panel.items()):
        style = styles.get(label, OTHER_STYLE)
        by_levels: dict[tuple[float, ...], list[np.ndarray]] = defaultdict(list)
        for record in records:
            share, quality = curve(record)
            by_levels[tuple(share if what == "heads" else parameters_removed(record))].append(quality)
        for levels, qualities in by_levels.items():
            mean = np.mean(qualities, axis=0)
            axis.plot(levels, mean, label=label if label in styles else OTHERS, **style)
            if len(qualities) > 1 and label in styles:
                spread = np.std(qualities, axis=0, ddof=1)
                axis.fill_between(levels, mean - spread, mean + spread, color=style["color"], alpha=0.12, linewidth=0)
    if not any(panel.values()):
        axis.text(0.5, 0.5, "all methods remove neurons too", transform=axis.transAxes, ha="center", color="0.45")
    axis.axhline(scale.chance, color="0.7", linewidth=0.8)
    axis.annotate("chance", (0, scale.chance), xytext=(2, 2), textcoords="offset points", color="0.45", fontsize=8)
    axis.set_xlabel(f"share of {what} removed")
    scale.fit(axis)
    axis.set_xlim(0, 1 if what == "heads" else None)
