"""Which path should gates close along? Orders compared on validation data; the test split is not read.

    python docs/studies/path.py [STAGE ...] [--encoder DIR --data DIR]

Each stage ranks the heads of the models of some seeds by several methods and adds a line for each to ``path.csv``
beside this file, where lines that are there already are not measured again; then it draws ``path.svg``. What the
columns mean is in docs/path.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from joint_schedules import Scene, scene  # beside this file, as the next
from studied import add, empty_figure, lines, save
from torch import Tensor

from bench.analysis.curves import area
from bench.measure.cost import counting
from bench.measure.view import view_of
from bench.report.figures.names import NamedPoint, name_points
from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.contract.choice import Choice
from methods.contract.choosing import select

TABLE, FIGURE = (Path(__file__).with_suffix(suffix) for suffix in (".csv", ".svg"))
KEY = ("task", "seed", "method", "options")
COLUMNS = (*KEY, "units", "forward", "backward", "area", "accuracy_25", "accuracy_50", "accuracy_75")
COLUMNS += ("accuracy_whole", "accuracy_empty", "chance", "seconds")
LEVELS = (0.25, 0.5, 0.75)
CPU = torch.device("cpu")

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Stage:
    """What to rank: every method on every task and seed."""

    tasks: tuple[str, ...]
    methods: tuple[tuple[str, Options], ...]
    seeds: tuple[int, ...] = (10, 11, 12)  # none of those that results are reported for


CHOICE, CONFIRMATION = ("classification", "mnli"), ("language_id", "harness")
FEWEST = 0.5  # where methods that need no pass stand, on the axis of passes
COMPARED: tuple[tuple[str, Options], ...] = (
    ("path", {}),
    ("oracle-greedy", {}),
    ("attr", {}),
    ("path", {"along": "all", "points": 3, "rounds": 1, "signed": False}),
    ("path", {"along": "layer", "points": 2, "rounds": 1, "signed": False}),
    ("michel", {}),
    ("tis", {}),
    ("greedy-michel", {}),
    ("random", {}),
)
MORE: tuple[tuple[str, Options], ...] = (
    ("path", {"along": "random"}),
    ("path", {"points": 14}),
    ("path", {"rounds": 1, "points": 28}),
    ("path", {"along": "layer", "points": 2}),
    ("shapley", {}),
)
STAGES = {
    "confirmation": Stage(CONFIRMATION, COMPARED),
    "choice": Stage(CHOICE, COMPARED),
    "few": Stage((*CHOICE, *CONFIRMATION), (("path", {"points": 2}),)),
    "more": Stage((*CHOICE, *CONFIRMATION), MORE),
    "encoder": Stage(
        ("encoder",),
        (
            ("path", {}),
            ("tis", {}),
            ("michel", {}),
            ("path", {"along": "layer", "points": 2, "rounds": 1, "signed": False}),
            ("path", {"points": 15}),
            ("oracle-greedy", {"recompute": 18}),
        ),
        seeds=(0,),
    ),
}


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks the heads of one model, and evaluates each set of heads once."""

    here: Scene
    known: dict[tuple[bool, ...], float]

    def accuracy(self, mask: Tensor) -> float:
        key = tuple(mask.tolist())
        if key not in self.known:
            heads = self.view().heads
            self.known[key] = self.here.accuracy(Choice(self.here.model, heads, mask).smaller())
        return self.known[key]

    def view(self) -> Any:
        return view_of(self.here.task, self.here.model, METHODS["path"], self.here.seed, 128, 1.0, CPU)

    def measure(self, name: str, options: Options) -> dict[str, Any]:
        view, method = self.view(), METHODS[name]
        units = len(view.heads)
        removed = [round(level * units) for level in LEVELS]
        started = time.perf_counter()
        with counting(view.model) as passes:
            masks = select(method, method.configure(options), view, removed).masks  # (draws, levels, units)
        seconds = time.perf_counter() - started
        curve = [mean(self.accuracy(mask) for mask in masks[:, level]) for level in range(len(LEVELS))]
        full = view.heads.full_mask()
        ends = self.accuracy(full), self.accuracy(~full)
        chance = guessing(self.here)
        scaled = (torch.tensor([ends[0], *curve, ends[1]]).double() - chance) / (ends[0] - chance)
        return {
            "units": units,
            "forward": round(passes.forward / view.examples, 1),
            "backward": round(passes.backward / view.examples, 1),
            "area": round(float(area(torch.tensor([0, *LEVELS, 1]).numpy(), scaled.numpy())), 4),
            **{f"accuracy_{level * 100:.0f}": round(value, 4) for level, value in zip(LEVELS, curve, strict=True)},
            "accuracy_whole": round(ends[0], 4),
            "accuracy_empty": round(ends[1], 4),
            "chance": round(chance, 4),
            "seconds": round(seconds, 2),
        }


def guessing(here: Scene) -> float:
    """Accuracy of always giving the commonest answer of the validation split; of a harness task, its own."""
    task: Any = here.task
    if here.task.spec.task == "harness":
        return task.guessing_quality
    labels = torch.tensor([example.label for example in task.dataset.validation])
    return labels.bincount().max().item() / len(labels)


def text_of(options: Options) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


def areas(tasks: tuple[str, ...]) -> Iterator[tuple[str, str, float, float]]:
    """Method, options, mean area and mean forward passes, of what was measured on all models of ``tasks``."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for line in lines(TABLE):
        if line["task"] in tasks:
            found.setdefault((line["method"], line["options"]), []).append(line)
    most = max(map(len, found.values()), default=0)
    for (method, options), each in found.items():
        if len(each) == most:
            yield method, options, mean(float(e["area"]) for e in each), mean(float(e["forward"]) for e in each)


def draw() -> None:
    """Area against passes, on the tasks of the choice and on those of the confirmation."""
    figure = empty_figure(8, 4)
    for axis, tasks in zip(figure.subplots(1, 2), (CHOICE, CONFIRMATION), strict=True):
        named = []
        for method, options, value, passes in areas(tasks):
            colour = "#d55e00" if method == "path" else "#667079"
            axis.plot(max(passes, FEWEST), value, "o" if method == "path" else "s", color=colour)
            label = " ".join(part.rpartition("=")[2] for part in options.split() if not part.startswith("signed"))
            named.append(NamedPoint(f"{method} {label}".strip(), max(passes, FEWEST), value, colour))
        axis.set_xscale("log")
        axis.set_xlabel(f"passes over the calibration set ({FEWEST:g}: none)")
        axis.set_ylabel("area")
        axis.set_title(", ".join(tasks), fontsize=9)
        axis.margins(x=0.25, y=0.1)
        axis.autoscale_view()
        name_points(axis, named)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"one or more of {', '.join(STAGES)}")
    parser.add_argument("--encoder", default="", metavar="DIR", help="pretrained encoder, for the stage encoder")
    parser.add_argument("--data", default="", metavar="DIR", help="its labelled texts")
    given = parser.parse_args()
    torch.set_num_threads(1)
    load_plugins()
    for stage in (STAGES[name] for name in given.stages):
        for seed in stage.seeds:
            for task in stage.tasks:
                done = {tuple(line[column] for column in KEY) for line in lines(TABLE)}
                wanted = [
                    (key, method, options)
                    for method, options in stage.methods
                    if (key := (task, str(seed), method, text_of(options))) not in done
                ]
                ranking = Ranking(scene(task, seed, given.encoder, given.data), {}) if wanted else None
                for key, method, options in wanted:
                    assert ranking is not None
                    add(TABLE, COLUMNS, [dict(zip(KEY, key, strict=True)) | ranking.measure(method, options)])
    draw()


if __name__ == "__main__":
    main()
