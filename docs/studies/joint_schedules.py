"""How should gates be cooled in a short training? Schedules compared on validation data; the test split is not read.

    python docs/studies/joint_schedules.py [STAGE ...] [--encoder DIR --data DIR]

Each stage trains gates on the built-in tasks (``encoder``: on a model and data of your own) and adds a line per budget
to ``joint_schedules.csv`` beside this file, where lines that are there already are not measured again; then it draws
``joint_schedules.svg``. All stages take about an hour on one core. What the columns mean is in docs/joint-schedules.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import torch
from studied import add, empty_figure, lines, save  # beside this file
from torch import Tensor, nn

from bench.measure.view import view_of
from bench.suites.cells import open_task
from bench.suites.plugins import load_plugins
from methods import METHODS, View, dsp
from methods.contract.choice import Choice
from methods.contract.choosing import select
from tasks.builtin import abilities, decoder
from tasks.contract import Task
from tasks.models.cache import Cache, default_root
from tasks.request import TaskSpec

TABLE, FIGURE = (Path(__file__).with_suffix(suffix) for suffix in (".csv", ".svg"))
COLUMNS = ("task", "seed", "method", "options", "training", "removed", "units", "steps", "agreement", "chance")
COLUMNS += ("accuracy", "accuracy_untrained", "accuracy_whole", "margin", "learning_steps", "changed", "seconds")
KEY = COLUMNS[:5]
CPU = torch.device("cpu")
initial = dsp._initial
NUDGE = 1e-7  # standard deviation of what is added to the initial w, to see how many heads it changes

Options = Mapping[str, Any]


def cooled(start: float, end: float, cooldown: float, rate: float) -> Options:
    return {"start_temperature": start, "end_temperature": end, "cooldown": cooldown, "learning_rate": rate}


RULE: Options = {}
PAPER, SHORT = cooled(1000, 1e-8, 0.68, 0.5), cooled(1, 0.01, 0.68, 1.0)


@dataclass(frozen=True)
class Stage:
    """What to train: every schedule on every task and seed, for a share of the task's own training."""

    tasks: tuple[str, ...]
    schedules: tuple[tuple[str, Options], ...]
    seeds: tuple[int, ...] = (10, 11, 12)  # none of those that results are reported for
    training: float = 0.1
    removed: tuple[float, ...] = (0.5, 0.75)
    nudged: bool = False


THREE = ("classification", "mnli", "language_id")
SCREEN = [RULE, PAPER, SHORT, *(cooled(1, 0.01, 0.68, rate) for rate in (0.1, 0.2, 0.5, 2.0))]
SCREEN += [cooled(10, 0.01, 0.68, rate) for rate in (1.0, 2.0)]
SCREEN += [cooled(1, 0.01, 0.34, 2.0), cooled(1, 0.01, 1.0, 1.0), cooled(1, 0.1, 0.68, 1.0)]
BOTH = (("dsp-joint", PAPER), ("dsp-joint", RULE))
STAGES = {
    "references": Stage(
        (*THREE, "harness"), tuple((name, {}) for name in ("michel", "michel-retrained", "random-retrained"))
    ),
    "screen": Stage(THREE, tuple(("dsp-joint", each) for each in SCREEN)),
    "straight-through": Stage(THREE, tuple(("ste", {"learning_rate": rate}) for rate in (0.1, 0.5))),
    "pipelined": Stage(
        THREE,
        tuple(
            ("dsp-pipelined", each)
            for each in (RULE, PAPER, *(cooled(1, 0.01, 0.68, rate) for rate in (0.2, 0.5, 1.0)))
        ),
    ),
    "confirmation": Stage(("harness",), BOTH),
    "stability": Stage(("mnli", "language_id"), BOTH, seeds=(13, 14), nudged=True),
    "long": Stage(("language_id",), BOTH, seeds=(10,), training=1.0),
    "encoder": Stage(("encoder",), BOTH, seeds=(0,), training=1.0, removed=(0.5,)),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """The model of a seed, and how accurate a model is on the validation split."""

    task: Task
    model: nn.Module
    seed: int
    accuracy: Callable[[nn.Module], float]
    oracle: int  # heads that oracle-greedy removes at a time
    known: dict[Any, Any] = field(default_factory=dict)

    def view(self, training: float = 1.0) -> View:
        return view_of(self.task, self.model, METHODS["dsp-joint"], self.seed, 128, training, CPU)

    def kept(self, name: str, removed: list[int], **options: Any) -> Tensor:
        """Units kept by a method that does not train, (budgets, units)."""
        key = (name, *removed)
        if key not in self.known:
            self.known[key] = select(METHODS[name], METHODS[name].configure(options), self.view(), removed).masks[0]
        return self.known[key]

    def accuracy_without(self, mask: Tensor) -> float:
        """Accuracy of the model as it was before the method, with these units."""
        key = tuple(mask.tolist())
        if key not in self.known:
            self.known[key] = self.accuracy(Choice(self.model, self.view().heads, mask).smaller())
        return self.known[key]

    def trained(
        self, name: str, options: Options, training: float, removed: list[int], nudge: float = 0.0
    ) -> list[Choice]:
        method = METHODS[name]

        def nudged(*args: Any) -> Tensor:
            w = initial(*args)
            w.data += nudge * torch.randn(len(w), generator=torch.Generator().manual_seed(0), dtype=w.dtype)
            return w

        with patch.object(dsp, "_initial", nudged) if nudge else nullcontext():
            return select(method, method.configure(options), self.view(training), removed).choices[0]


@cache
def scene(name: str, seed: int, encoder: str, data: str) -> Scene:
    spec = TaskSpec(task=name)
    if name == "encoder":
        spec = TaskSpec(task="classification", data=data, model=encoder, finetune=True, limit=1000)
    task: Any = open_task(spec)
    task.prepare(seed, Cache(default_root()), CPU)
    model = task.open(seed, Cache(default_root()), CPU).requires_grad_(False)
    if name == "harness":
        questions = abilities.documents()["validation"]
        answers = torch.tensor([question.label for question in questions])

        def accuracy(model: Any) -> float:
            return (decoder.choose(model, task._tokenizer, questions) == answers).double().mean().item()

    else:
        task._test = task._encode(task.dataset.validation)  # what evaluate reads

        def accuracy(model: Any) -> float:
            return task.evaluate(model).correct.double().mean().item()

    return Scene(task, model, seed, accuracy, oracle=8 if name == "encoder" else 1)


def measure(here: Scene, name: str, options: Options, stage: Stage) -> Iterator[dict[str, Any]]:
    """A line per budget."""
    units = len(here.view().heads)
    removed = [round(share * units) for share in stage.removed]
    best = here.kept("oracle-greedy", removed, recompute=here.oracle)
    started = time.perf_counter()
    choices = here.trained(name, options, stage.training, removed)
    seconds = (time.perf_counter() - started) / len(choices)
    again = choices
    if stage.nudged:
        again = here.trained(name, options, stage.training, removed, NUDGE)
    for share, choice, other, oracle in zip(stage.removed, choices, again, best, strict=True):
        report, keep = choice.report, int(choice.mask.sum())
        yield {
            "removed": share,
            "units": units,
            "steps": (steps := report.get("steps", 0)),
            "agreement": int((choice.mask & oracle).sum()) / keep,
            "chance": keep / units,
            "accuracy": here.accuracy(choice.smaller()),
            "accuracy_untrained": here.accuracy_without(choice.mask),
            "accuracy_whole": here.accuracy_without(torch.ones(units, dtype=torch.bool)),
            "margin": report.get("margin", ""),
            "learning_steps": report["learning_steps"] / steps if "learning_steps" in report else "",
            "changed": int((choice.mask & ~other.mask).sum()) if stage.nudged else "",
            "seconds": round(seconds, 2),
        }


def draw() -> None:
    """Agreement beyond chance against accuracy after training, of the schedules screened on three tasks."""
    figure = empty_figure(6.4, 4.2)
    axis = figure.subplots()
    markers = {"dsp-joint": "o", "ste": "^", "michel-retrained": "s", "random-retrained": "D"}
    by_schedule: dict[tuple[str, str], list[dict[str, str]]] = {}
    for line in lines(TABLE):
        screened = line["task"] in THREE and line["seed"] in ("10", "11", "12") and line["training"] == "0.1"
        if screened and line["method"] in markers:
            by_schedule.setdefault((line["method"], line["options"]), []).append(line)
    points: list[tuple[float, float, str, str, str]] = []
    for (method, options), found in by_schedule.items():
        beyond = mean((float(f["agreement"]) - float(f["chance"])) / (1 - float(f["chance"])) for f in found)
        accuracy = mean(float(f["accuracy"]) for f in found)
        values = [part.partition("=")[2] for part in options.split()]
        label = " ".join([method, *filter(None, values)])
        if method == "dsp-joint":
            label = "{} to {}, {}, lr {}".format(*values) if options else "by steps"
        chosen = method == "dsp-joint" and (options == "" or values == ["1000", "1e-08", "0.68", "0.5"])
        colour = "#d55e00" if chosen else "#0072b2" if method == "dsp-joint" else "#667079"
        points.append((beyond, accuracy, label, markers[method], colour))
    for x, y, label, marker, colour in points:
        near = [other[0] - x for other in points if abs(other[1] - y) < 0.009]
        right, left = any(0 < gap < 0.2 for gap in near), any(-0.06 < gap < -0.02 for gap in near)
        side = {"xytext": (-5, 2), "ha": "right"} if right and not left else {"xytext": (5, -9 if right else 2)}
        axis.plot(x, y, marker, color=colour)
        axis.annotate(label, (x, y), textcoords="offset points", fontsize=7, color=colour, **side)
    axis.set_xlabel("agreement with oracle-greedy beyond chance (1: the same heads)")
    axis.set_ylabel("validation accuracy after training")
    axis.margins(x=0.25, y=0.1)
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
        done = {tuple(line[column] for column in KEY) for line in lines(TABLE)}
        for (name, seed), (method, options) in product(product(stage.tasks, stage.seeds), stage.schedules):
            values = (f"{key}={value:g}" for key, value in options.items())
            key = (name, str(seed), method, " ".join(values), str(stage.training))
            if key not in done:
                here = scene(name, seed, given.encoder, given.data)
                add(
                    TABLE,
                    COLUMNS,
                    [dict(zip(KEY, key, strict=True)) | line for line in measure(here, method, options, stage)],
                )
    draw()


if __name__ == "__main__":
    main()
