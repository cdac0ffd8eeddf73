"""Tables of quality by share removed in the documents, from the committed records.

    python -m docs.studies.tables [--check]

puts the figures in and sorts the rows by their mean, or only says where they differ. ``answers.toml`` says where the
tables are and what they are of. Their rows are the methods that stand in them.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from bench.analysis.costs import level_index
from bench.analysis.quality import POINTS
from bench.analysis.run_results import RunResults
from docs.studies.answers import results, revise_pages, section

HEADER = re.compile(r"^\| removed \| 0 \|.*$", re.MULTILINE)


def quality(run: RunResults, tasks: list[str], label: str, share: float) -> float:
    """Mean over ``tasks`` (by data) of the mean over seeds of the quality of a method without ``share`` of the units.

    Raises ValueError for a task without the method, or a level that was not measured.
    """
    means = []
    for key in (key for key in run.tasks() if not tasks or key.data in tasks):
        found = []
        for cell in run.of(key, label).values():
            if (level := level_index(cell.record, share)) is None:
                raise ValueError(f"{label} was not measured without {share:g} on {key.data}")
            found.append(cell.quality[level])
        if not found:
            raise ValueError(f"no records of {label} on {key.data}")
        means.append(np.mean(found))
    return float(np.mean(means))


def filled(table: str, run: RunResults, tasks: list[str]) -> str:
    """``table``, whose columns are named by shares, with its figures in per cent and its rows sorted by their mean."""
    header, rule, *rows = table.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    shares = {place: float(name.removesuffix("%")) / 100 for place, name in enumerate(names) if name[0].isdigit()}
    lines = []
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        found = {place: quality(run, tasks, cells[0].strip("`"), share) for place, share in shares.items()}
        for place, figure in found.items():
            cells[place] = f"{POINTS * figure:.1f}"
        lines.append((-sum(found.values()), f"| {' | '.join(cells)} |"))
    return "\n".join([header, rule, *(line for _, line in sorted(lines))])


def table_of(page: str, asked: dict[str, Any], header: re.Pattern[str] = HEADER) -> tuple[int, str]:
    """Where a table that is ``asked`` for begins in ``page``, and its text. Raises ValueError where there is none."""
    begin, end = section(page, asked["heading"])
    if not (found := header.search(page, begin, end)):
        raise ValueError(f"no table below {asked['heading']!r}")
    return found.start(), page[found.start() :].partition("\n\n")[0].rstrip("\n")


def revised(page: str, asked: dict[str, Any]) -> tuple[str, list[str]]:
    """``page`` with the figures of a table in it, beside which there is nothing that could be wrong."""
    begin, table = table_of(page, asked)
    new = filled(table, results(asked["folder"]), asked.get("tasks", []))
    return page[:begin] + new + page[begin + len(table) :], []


if __name__ == "__main__":
    sys.exit(revise_pages(__doc__, "table", revised))
