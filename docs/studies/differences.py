"""Tables of differences between methods in the documents, from the committed records.

    python -m docs.studies.differences [--check]

puts the figures in, or only says where they differ. The header of a table is either

    | compared with `B` | COLUMN | ...           whose rows begin with `A`, and are sorted by the first column, or
    | method | compared with | COLUMN | ...      whose rows begin with `A` and `B`, and stay in their order

and ``answers.toml`` names the tasks of each column. A figure is how many points more A keeps than B, as ``headbench
compare`` has it, in bold where a difference is shown; a column with "interval" in its name has the interval too.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from docs.studies.answers import Answer, Question, answer, results, revise_pages
from docs.studies.tables import table_of

HEADER = re.compile(r"^\| (?:compared with `[^`]+`|method \| compared with) \|.*$", re.MULTILINE)
MISSING = "–"
Answers = Callable[[Question], Answer | None]


def answer_on_all(question: Question) -> Answer | None:
    """The answer, or None where one of the methods was not measured on one of the tasks."""
    run = results(question.folder)
    keys = [key for key in run.tasks() if key.data in question.tasks]
    measured = all(run.of(key, label) for key in keys for label in (question.a, question.b))
    return answer(question) if measured and len(keys) == len(question.tasks) else None


def figure(found: Answer | None, interval: bool) -> str:
    """A difference as it stands in a table."""
    if not found:
        return MISSING
    middle, low, high = found.figures
    text = middle if middle.startswith(("-", "0.0")) else f"+{middle}"
    text = f"**{text}**" if found.shown else text
    return f"{text} ({low} to {high})" if interval else text


def filled(table: str, asked: dict[str, Any], answers: Answers) -> str:
    """``table`` with its figures. Raises ValueError where its columns are not those ``asked`` for."""
    header, rule, *rows = table.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    one = names[0].split("`")[1:2]  # the method that all are compared with
    columns = names[1 if one else 2 :]
    if len(columns) != len(asked["columns"]):
        raise ValueError(f"{asked['heading']!r} has {len(columns)} columns, not {len(asked['columns'])}")
    lines = []
    for row in rows:
        methods = row.split("`")[1 : 2 if one else 4 : 2]
        a, b = *methods, *one
        found = [answers(Question(asked["folder"], a, b, tasks=tuple(tasks))) for tasks in asked["columns"]]
        figures = [figure(each, "interval" in name) for each, name in zip(found, columns, strict=True)]
        place = -found[0].difference if one and found[0] else math.inf
        lines.append((place, f"| {' | '.join([*(f'`{method}`' for method in methods), *figures])} |"))
    return "\n".join([header, rule, *(line for _, line in sorted(lines, key=itemgetter(0)))])


def revised(page: str, asked: dict[str, Any], answers: Answers = answer_on_all) -> tuple[str, list[str]]:
    """``page`` with the figures of a table in it, beside which there is nothing that could be wrong."""
    begin, table = table_of(page, asked, HEADER)
    return page[:begin] + filled(table, asked, answers) + page[begin + len(table) :], []


if __name__ == "__main__":
    sys.exit(revise_pages(__doc__, "difference", revised))
