"""Where every number comes from: the records by method and task, and what each was made with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board, machine
from bench.report.pages.layout import page, section
from bench.report.pages.links import place
from bench.report.pages.markup import Safe, slug, tag, text


def records_page(board: Board, out: Path) -> bytes:
    """The page, for a report in the folder ``out``; records that lie near it are linked, others named."""
    origins = {told: number for number, told in enumerate(sorted({_origin(r) for r in board.records.values()}), 1)}
    made = [tag("li", told, id=f"origin-{number}") for told, number in origins.items()]
    near = _near(board.folder, out)
    parts: list[str] = [
        tag(
            "p",
            "Each record is one cell: a method on a task with a seed. Its arrays lie beside it. Each seed is a link to "
            "its record, titled with the key of what it was made from.",
        ),
        section("origins", "Origins", tag("ol", *made)),
    ]
    for label in board.labels:
        rows = [
            _row(board, out, task, own, origins, near, label)
            for task in board.tasks
            if (own := board.paths(task, label))
        ]
        heads = ("task", "records by seed", "origin")
        table = tag(
            "table",
            tag("thead", tag("tr", *(tag("th", h, scope="col", class_="word") for h in heads))),
            tag("tbody", *rows),
        )
        box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Records of {label}")
        parts.append(section(slug(label), label, box))
    return page("Records", *parts)


def _row(
    board: Board,
    out: Path,
    task: TaskKey,
    records: Mapping[Path, FinishedRecord],
    origins: Mapping[str, int],
    near: bool,
    label: str,
) -> Safe:
    """The records of a method on a task: a link a seed, called by its key, or the folder and files by name."""
    folder = next(iter(records)).parent
    links: list[str] = [] if near else [f"{folder.relative_to(board.folder).as_posix()}: "]
    for count, (path, record) in enumerate(records.items()):
        link = quote(Path(os.path.relpath(path.resolve(), out.resolve())).as_posix())
        key, seed = record.key[:12], str(record.cell.seed)
        shown = tag("a", seed, href=link, title=key) if near else tag("span", path.name, title=key)
        links += [" " if count else "", shown]
    numbers = sorted({origins[_origin(record)] for record in records.values()})
    made = [text(" " if count else "", tag("a", str(n), href=f"#origin-{n}")) for count, n in enumerate(numbers)]
    return tag(
        "tr",
        tag("th", board.name(task), scope="row"),
        tag("td", *links, class_="word"),
        tag("td", *made, class_="word"),
        id=f"{slug(label)}--{place(task)}",
    )


def _near(folder: Path, out: Path) -> bool:
    """Whether the report lies in the folder of the run, or beside it: they are likely to be moved together."""
    return out.resolve().is_relative_to(folder.resolve()) or out.resolve().parent == folder.resolve().parent


def _origin(record: FinishedRecord) -> str:
    """Commit, versions and machine in one line."""
    came = record.provenance
    commit = f"commit {came.commit or 'unknown'}" + (" with changes" if came.dirty else "")
    packages = ", ".join(f"{name} {version}" for name, version in came.packages.items() if version)
    return f"{commit}; {machine(record)}; {came.system}; Python {came.python}; {packages}"
