"""Draw quality against the share of heads removed, one panel a task."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bench.frame import curve
from bench.records import Record

# Okabe and Ito's colours, told apart without full colour vision; markers do the same in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headbench",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(records: list[Record]) -> bytes:
    """SVG with a line for each method, a band of one standard deviation over seeds; controls are grey and dashed."""
    panels: dict[tuple[str, str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["status"] == "done":
            cell = record["cell"]
            panels[cell["task"], cell["data"], cell["model"]][cell["label"]].append(record)
    controls = {r["cell"]["label"] for r in records if r["cell"]["control"]}
    labels = sorted(
        {label for panel in panels.values() for label in panel}, key=lambda label: (label in controls, label)
    )
    colours, dashes = cycle(zip(COLOURS, MARKERS, strict=True)), cycle(DASHES)
    styles = {
        label: {"color": "0.45", "linestyle": next(dashes), "linewidth": 1.2}
        if label in controls
        else dict(zip(("color", "marker"), next(colours), strict=True)) | {"linewidth": 1.6, "markersize": 4}
        for label in labels
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(panels), 3.8), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (names, panel) in zip(axes, sorted(panels.items()), strict=True):
            _panel(axis, names, panel, styles)
        axes[0].set_ylabel("test accuracy")
        handles = {
            text: handle for axis in axes for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            [handles[label] for label in labels if label in handles],
            [label for label in labels if label in handles],
            loc="outside lower center",
            ncols=min(6, len(labels)),
            frameon=False,
        )
        content = io.BytesIO()
        title = "Accuracy against the share of heads removed"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the viewer has its own fonts
            figure.savefig(content, format="svg", metadata={"Date": None, "Title": title})
    return content.getvalue()


def _panel(axis, names: tuple[str, str, str], panel: dict[str, list[Record]], styles: dict[str, dict]) -> None:
    chance = 0.0
    for label, style in styles.items():
        by_levels: dict[tuple[float, ...], list[np.ndarray]] = defaultdict(list)
        for record in panel.get(label, []):
            share, quality = curve(record)
            by_levels[tuple(share)].append(quality)
            chance = record["result"]["chance"]
        for levels, qualities in by_levels.items():
            mean = np.mean(qualities, axis=0)
            axis.plot(levels, mean, label=label, **style)
            if len(qualities) > 1:
                spread = np.std(qualities, axis=0, ddof=1)
                axis.fill_between(levels, mean - spread, mean + spread, color=style["color"], alpha=0.12, linewidth=0)
    axis.axhline(chance, color="0.7", linewidth=0.8)
    axis.annotate("chance", (0, chance), xytext=(2, 2), textcoords="offset points", color="0.45", fontsize=8)
    axis.set_title(f"{names[1]}\n{names[0]}, {names[2]}", fontsize=9)
    axis.set_xlabel("share of heads removed")
    axis.set_ylim(0, 1.02)
    axis.set_xlim(0, 1)
