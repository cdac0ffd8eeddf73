"""What does recovery without training give back, from how many texts? Validation data; the test split is not read.

    python docs/studies/recovery.py [TASK ...] [--seeds 10,11] [--encoder DIR --data DIR]

For each model it takes the heads that five methods keep at three levels, recovers their output weights in all ways from
32 to 256 calibration texts, and adds a line for each to ``recovery.csv`` beside this file, where lines that are there
already are not measured again; then it draws ``recovery.svg``. The task ``encoder`` is a fine-tuned classifier and data
of your own. The built-in tasks take ten minutes on one core. What the columns mean is in docs/recovery.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from studied import add, empty_figure, lines, save  # beside this file
from torch import nn

from bench.measure.view import view_of
from bench.suites.cells import open_task
from bench.suites.plugins import load_plugins
from methods import METHODS, View
from methods.contract.choice import Choice
from methods.contract.choosing import select
from methods.heads.surgery.shrink import working_copy
from methods.recovery.least_squares import ROUNDING, Moments, scaled_heads, whole_projections
from methods.recovery.projection import Projection
from methods.recovery.recover import Recovered, divergences, held_out_texts, recover
from methods.recovery.tokens import texts_of, walk
from tasks.builtin import abilities, decoder
from tasks.data import encode
from tasks.models.cache import Cache, default_root
from tasks.request import TaskSpec

TABLE, FIGURE = (Path(__file__).with_suffix(suffix) for suffix in (".csv", ".svg"))
COLUMNS = ("task", "seed", "method", "removed", "recover", "texts", "units", "accuracy", "loss", "held_out_loss")
COLUMNS += ("recovered", "unchanged", "seconds", "divergence")
KEY = COLUMNS[:6]
BUILT_IN = ("classification", "mnli", "language_id", "harness")
METHOD_NAMES = ("michel", "gnorm", "flap", "obs", "random")
LEVELS = (0.75, 0.5, 0.875)
TEXTS = (128, 32, 256, 64)
SCORED_ON = 128  # texts
# As ``recover`` does it, and with other guards: against the error of each layer on held-out texts alone, which is what
# ``recover`` does before it looks at their logits; none; against their loss, layer after layer.
WAYS = ("bias", "scale: error", "lstsq: error", "lstsq: none", "lstsq: loss of each layer")
GUARDED = {"scale: error": "scale", "lstsq: error": "lstsq"}
MOST = 200  # validation texts of a real encoder
CPU = torch.device("cpu")


class Scene:
    """The model of a seed, and how good a model is on the validation split."""

    def __init__(self, name: str, seed: int, encoder: str, data: str) -> None:
        spec = TaskSpec(task=name)
        if name == "encoder":
            spec = TaskSpec(task="classification", data=data, model=encoder)
        self.task: Any = open_task(spec)
        self.task.prepare(seed, Cache(default_root()), CPU)
        self.model: Any = self.task.open(seed, Cache(default_root()), CPU).requires_grad_(False)
        self.seed = seed
        self.questions = abilities.documents()["validation"] if name == "harness" else ()
        if self.questions:
            examples = decoder.encode(self.questions, self.task._tokenizer)
        else:
            examples = self.task._encode(self.task.dataset.validation[: MOST if name == "encoder" else None])
        self.validation = list(encode.batches(examples, self.task._tokenizer, 64, by_length=True, device=CPU))

    def view(self, texts: int) -> View:
        return view_of(self.task, self.model, METHODS["michel"], self.seed, texts, 1.0, CPU)

    def chosen(self, name: str) -> dict[float, Choice]:
        """What a method keeps, by the share of units removed; of a random one, its first draw."""
        view = self.view(SCORED_ON)
        levels = sorted(LEVELS)
        method = METHODS[name]
        found = select(method, method.configure({}), view, [round(level * len(view.heads)) for level in levels])
        return dict(zip(levels, found.choices[0], strict=True))

    @torch.no_grad()
    def quality(self, choice: Choice) -> dict[str, float]:
        model: Any = choice.smaller()
        losses, correct = [], []
        for batch in self.validation:
            logits = self.task.logits(model, batch)
            losses.append(self.task.loss(logits, batch))
            correct.append(logits.argmax(-1) == batch.labels if not self.questions else torch.empty(0))
        if self.questions:
            answers = torch.tensor([question.label for question in self.questions])
            correct = [decoder.choose(model, self.task._tokenizer, self.questions) == answers]
        accuracy, loss = (float(torch.cat(parts).double().mean()) for parts in (correct, losses))
        return {"accuracy": accuracy, "loss": loss}


def held_out_batches(view: View) -> list[Any]:
    """The calibration texts on which recovery judges itself."""
    held_out, batches = held_out_texts(view), []
    for batch, texts in zip(view.batches, texts_of(view.batches), strict=True):
        rows = held_out[texts]
        inputs = {name: values[rows] for name, values in batch.inputs.items()}
        batches.append(batch._replace(inputs=inputs, labels=batch.labels[rows]))
    return [batch for batch in batches if len(batch.labels)]


@torch.no_grad()
def mean_loss(view: View, model: nn.Module, batches: Sequence[Any]) -> float:
    losses = [view.loss_of_logits(view.forward(model, batch), batch) for batch in batches]
    return float(torch.cat(losses).double().mean())


Guard = Callable[[nn.Module, Any, Projection, Projection, Moments], bool]


@torch.no_grad()
def least_squares(view: View, choice: Choice, how: str, better: Guard) -> Recovered:
    """``recover`` with another guard: better(model, output projection, new weights, old ones, sums of held-out texts).

    The model has the new weights when the guard is asked, and the old ones again where it says no.
    """
    smaller = choice.smaller()
    steps = walk(view, choice, smaller)
    held_out, counts = held_out_texts(view), [0, 0]
    model = dataclasses.replace(choice, model=working_copy(choice.model))
    kept = choice.heads.kept(choice.mask)
    for index in steps.sites():
        site = choice.heads.sites[index]
        output = smaller.get_submodule(site.output)
        old = Projection.of(output)
        fit, test = (Moments.zero(*old.weight.shape, CPU) for _ in range(2))
        for tokens in steps.tokens(index):
            out = held_out[tokens.texts]
            fit.add(tokens.read[~out], tokens.wanted[~out])
            test.add(tokens.read[out], tokens.wanted[out])
        heads = len(old.weight) // site.head_dim
        candidates = whole_projections(fit, old) if how == "lstsq" else scaled_heads(fit, old, heads)
        new = min((each.rounded(torch.float32) for each in candidates), key=test.error, default=old)
        new.write(output)
        if better(smaller, output, new, old, test):
            new.write(model.model.get_submodule(site.output), site.columns(kept[site.name]))
            counts[0] += 1
        else:
            old.write(output)
            counts[1] += 1
    return Recovered(model, *counts)


def recovered(view: View, choice: Choice, way: str) -> Recovered:
    how, _, guard = way.partition(": ")
    if not guard:
        return recover(view, choice, how)  # type: ignore[arg-type]
    batches = held_out_batches(view)
    least = [mean_loss(view, choice.smaller(), batches)]

    def loss_falls(model: nn.Module, *_: Any) -> bool:
        loss = mean_loss(view, model, batches)
        falls, least[0] = loss < least[0], min(loss, least[0])
        return falls

    def error_falls(model: nn.Module, output: Any, new: Projection, old: Projection, test: Moments) -> bool:
        return test.error(new) < test.error(old) - ROUNDING * float(test.tt)

    guards = {"none": lambda *_: True, "error": error_falls, "loss of each layer": loss_falls}
    return least_squares(view, choice, how, guards[guard])


def measure(here: Scene, name: str, done: set[tuple[str, ...]]) -> None:
    """Add all lines of one model. Those that ``recover`` gives follow from those of the guard against errors alone."""
    ways = WAYS if name in BUILT_IN else WAYS[:3]
    views = {texts: here.view(texts) for texts in TEXTS}
    units = {"units": len(views[SCORED_ON].heads)}

    def key(*values: Any) -> dict[str, Any]:
        return dict(zip(KEY, (name, here.seed, *values), strict=True))

    whole = key("none", 0.0, "none", SCORED_ON)
    if tuple(map(str, whole.values())) not in done:
        heads = views[SCORED_ON].heads
        add_rounded(whole | units | here.quality(Choice(here.model, heads, heads.full_mask())))
    chosen = {method: here.chosen(method) for method in METHOD_NAMES}
    plain: dict[tuple[str, float], dict[str, Any]] = {}
    for texts in TEXTS:
        view, held_out = views[texts], held_out_batches(views[texts])
        for level in LEVELS:
            for method in METHOD_NAMES:
                last = key(method, level, GUARDED.get(ways[-1], ways[-1]), texts)
                if tuple(map(str, last.values())) in done:
                    continue
                choice = chosen[method][level]
                if (method, level) not in plain:
                    plain[method, level] = here.quality(choice)
                before = judged(view, choice.smaller(), held_out)
                add_rounded(key(method, level, "none", texts) | units | plain[method, level] | before)
                for way in ways:
                    started = time.process_time()
                    found = recovered(view, choice, way)
                    line = units | {"seconds": time.process_time() - started} | here.quality(found.choice)
                    line |= {"recovered": found.recovered, "unchanged": found.unchanged}
                    line |= (after := judged(view, found.choice.smaller(), held_out))
                    add_rounded(key(method, level, way, texts) | line)
                    if way in GUARDED:
                        if not after["divergence"] < before["divergence"]:
                            line |= plain[method, level] | before
                            line |= {"recovered": 0, "unchanged": found.recovered + found.unchanged}
                        add_rounded(key(method, level, GUARDED[way], texts) | line)


def add_rounded(line: Mapping[str, Any]) -> None:
    add(TABLE, COLUMNS, [{name: f"{x:.5g}" if isinstance(x, float) else x for name, x in line.items()}])


def judged(view: View, model: nn.Module, held_out: Sequence[Any]) -> dict[str, float]:
    """What a guard can see of a model."""
    return {
        "held_out_loss": mean_loss(view, model, held_out),
        "divergence": divergences(view, [model], held_out_texts(view))[0],
    }


def draw() -> None:
    """Accuracy won on the built-in tasks by the number of calibration texts, a panel for each level."""
    table = [line for line in lines(TABLE) if line["task"] in BUILT_IN and line["method"] != "none"]
    before = {
        (line["task"], line["seed"], line["method"], line["removed"]): float(line["accuracy"])
        for line in table
        if line["recover"] == "none"
    }
    figure = empty_figure(6.4, 2.6)
    panels = figure.subplots(1, len(LEVELS), sharey=True)
    ways = {"lstsq": ("o", "#d55e00"), "bias": ("s", "#0072b2"), "scale": ("^", "#667079")}
    for axis, level in zip(panels, sorted(LEVELS), strict=True):
        for way, (marker, colour) in ways.items():
            means = []
            for texts in sorted(TEXTS):
                wanted = (way, str(texts), str(level))
                found = [line for line in table if (line["recover"], line["texts"], line["removed"]) == wanted]
                means.append(
                    mean(
                        100 * (float(f["accuracy"]) - before[f["task"], f["seed"], f["method"], f["removed"]])
                        for f in found
                    )
                )
            axis.plot(sorted(TEXTS), means, marker=marker, color=colour, label=way)
        axis.axhline(0, color="#cccccc", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(TEXTS), [str(texts) for texts in sorted(TEXTS)])
        axis.set_title(f"{100 * level:g} % removed", fontsize=9)
        axis.set_xlabel("calibration texts")
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("points of accuracy won")
    panels[0].legend(frameon=False)
    save(figure, FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"one or more of {', '.join(BUILT_IN)}, encoder")
    parser.add_argument("--seeds", default="10,11", help="seeds of the models (default: 10,11)")
    parser.add_argument("--encoder", default="", metavar="DIR", help="fine-tuned classifier, for the task encoder")
    parser.add_argument("--data", default="", metavar="DIR", help="its labelled texts")
    given = parser.parse_args()
    torch.set_num_threads(1)
    load_plugins()
    for seed in map(int, given.seeds.split(",")):
        for name in given.tasks:
            done = {tuple(line[column] for column in KEY) for line in lines(TABLE)}
            measure(Scene(name, seed, given.encoder, given.data), name, done)
    draw()


if __name__ == "__main__":
    main()
