"""Gradients of the query, key and value weights of each head, before and after the first removal of Greedy-Gnorm.

    python docs/studies/gradient_matrices.py [--removed N] [--out FILE.svg]
    python docs/studies/gradient_matrices.py --task classification --model DIR --data FILE --text COLUMN --label COLUMN

It draws what Figure 2 of Guo & Sheridan 2026 is about: the norm of each head's gradient matrices,
E_x || d s(x) / d W ||_F with s(x) the norm of the logits of one sentence, a map for each of W_Q, W_K and W_V; the same
without the heads of least score (the product of the three); and the change. The matrices are formed here, where
``gnorm`` computes their norms alone. Without flags it takes the built-in model and data of the task.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from studied import empty_figure, save  # beside this file
from torch import Tensor

from bench.cli import flag_types
from bench.cli.parser import Parser
from bench.measure.view import view_of
from bench.records.errors import InputError
from bench.report.figures.canvas import cell_map, name_cells
from bench.report.figures.heads.change_map import change_map
from bench.suites.cells import heads_of, open_task
from bench.suites.plugins import load_plugins, quiet_libraries
from bench.suites.validate import task_spec
from methods import METHODS, View
from methods.heads import UnsupportedArchitecture, gated, observed
from tasks.contract import TASKS
from tasks.errors import TaskError
from tasks.models.cache import Cache, default_root
from tasks.request import TaskSpec

PARTS = ("query", "key", "value")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Norms:
    """Mean norms of the gradient matrices: by part, for each attention module (heads,), or (key/value heads,)."""

    query: list[Tensor]
    key: list[Tensor]
    value: list[Tensor]

    def scores(self, view: View) -> Tensor:
        """The product of the three, (units,): Eq. 15."""
        rows = []
        for index, site in enumerate(view.heads.sites):
            key, value = (getattr(self, part)[index].repeat_interleave(site.queries_per_group) for part in PARTS[1:])
            rows.append(view.per_unit(index, self.query[index] * key * value))
        return torch.cat(rows)


def gradient_norms(view: View) -> Norms:
    """Norms of the gradient matrices of the model of ``view`` as it is, with the gates around it."""
    totals: dict[tuple[str, int], Tensor] = {}
    for batch in view.batches:
        matrices: dict[tuple[str, int], Tensor] = {}

        def add(site: int, inputs: Any, gradients: Any, matrices: Any = matrices) -> None:
            for part in PARTS:  # a tied layer is called several times: its gradient is the sum
                matrix = torch.einsum("btd,bthe->bhde", inputs[part].double(), gradients[part].double())
                matrices[part, site] = matrix + matrices.get((part, site), 0.0)

        with observed(view.model, view.heads, gradients=add):
            view.logits(batch).flatten(1).norm(dim=1).sum().backward()  # of each sentence by itself
        for key, matrix in matrices.items():
            totals[key] = matrix.flatten(2).norm(dim=2).sum(0) + totals.get(key, 0.0)  # (heads,)
    sites = range(len(view.heads.sites))
    return Norms(*([totals[part, site] / view.examples for site in sites] for part in PARTS))


def compared(view: View, removed: int) -> tuple[Norms, Norms, list[int]]:
    """Norms of the whole model and of that without the ``removed`` units of least score, and those units."""
    whole = gradient_norms(view)
    least = whole.scores(view).argsort(stable=True)[:removed]
    mask = view.heads.full_mask()
    mask[least] = False
    with gated(view.model, mask, view.heads):
        return whole, gradient_norms(view), least.tolist()


def drawn(before: Norms, after: Norms, title: str) -> Any:
    """A row of maps for each part: before, after, and the change in per cent (``change_map``)."""
    wide, layers = max(map(len, before.query)), len(before.query)
    figure = empty_figure(3 * (0.75 + 0.3 * wide), 3 * (0.55 + 0.22 * layers))
    figure.suptitle(title, fontsize=9.5)
    grid = figure.subplots(3, 3, squeeze=False)
    for line, part in zip(grid, PARTS, strict=True):
        first, second = ([row.numpy() for row in getattr(norms, part)] for norms in (before, after))
        largest = max(float(np.max(row)) for row in (*first, *second)) or 1.0
        for axis, norms, name in zip(line, (first, second), ("before", "after"), strict=False):
            cell_map(axis, [row / largest for row in norms])
            axis.set_title(f"{part}: {name}", fontsize=8.5, loc="left")
        with np.errstate(divide="ignore", invalid="ignore"):
            change = [now / then - 1 for then, now in zip(first, second, strict=True)]
        change_map(line[2], change, [row == -1 for row in change], size=5)
        line[2].set_title(f"{part}: change in %", fontsize=8.5, loc="left")
        for axis in line:
            name_cells(axis, range(max(map(len, first))), range(len(first)), size=7)
    for axis in grid[-1]:
        axis.set_xlabel("head")
    for axis in grid[:, 0]:
        axis.set_ylabel("layer")
    return figure


def main() -> None:
    parser = Parser(description=__doc__)
    for name in ("task", "model", "data", "text", "label"):
        parser.add_argument(f"--{name}", default="classification" if name == "task" else "")
    parser.add_argument("--mirror", default=os.environ.get("HEADBENCH_MIRROR", ""), help="folder with hub ids")
    parser.add_argument("--calibration", type=flag_types.positive, default=128, help="sentences (default: 128)")
    parser.add_argument("--removed", type=flag_types.positive, default=1, help="heads removed (default: 1)")
    parser.add_argument("--out", type=flag_types.file, default=Path("gradient_matrices.svg"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    quiet_libraries()
    load_plugins()
    if given.task not in TASKS:
        parser.error(f"unknown task {given.task!r}")
    fields = {name: value for name in TaskSpec.model_fields if (value := getattr(given, name, ""))}
    cache = Cache(default_root())
    try:
        task = open_task(task_spec(fields, lambda name, value: f"--{name} {value!r}"))
        units = len(heads_of(task, task.validate()))
        if given.removed >= units:
            parser.error(f"--removed {given.removed}: expected fewer than the {units} units of {task.model_name}")
        task.prepare(0, cache, CPU)
    except (TaskError, InputError, UnsupportedArchitecture) as error:
        parser.error(str(error))
    model = task.open(0, cache, CPU).requires_grad_(False)
    view = view_of(task, model, METHODS["gnorm"], 0, given.calibration, 1.0, CPU)
    before, after, removed = compared(view, given.removed)
    names = ", ".join(view.heads.name(unit) for unit in removed)
    save(drawn(before, after, f"{task.model_name}, {task.data_name}: without {names}"), given.out)


if __name__ == "__main__":
    main()
