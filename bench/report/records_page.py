"""Where every number comes from: the records by method and task, and what each was made with."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from bench.records import Record
from bench.report.board import Board, machine
from bench.report.links import place
from bench.report.markup import Safe, slug, tag, text
from bench.report.page import page, section


def records_page(board: Board, out: Path) -> bytes:
    """The page, for a report in the folder ``out``; records that lie near it are linked, others named."""
    origins = {told: number for number, told in enumerate(sorted({_origin(r) for r in board.records.values()}), 1)}
    made = [tag("li", told, id=f"origin-{number}") for told, number in origins.items()]
    near = _near(board.folder, out)
    parts: list[str] = [
        tag("p", "Each record is one cell: a method on a task with a seed. Its arrays lie beside it."),
        section("origins", "Origins", tag("ol", *made)),
    ]
    for label in board.labels:
        rows = []
        for task in board.tasks:
            for number, (path, record) in enumerate(board.paths(task, label).items()):
                identity = f"{slug(label)}--{place(task)}" if not number else None
                rows.append(_row(board, out, path, record, origins[_origin(record)], near, identity))
        heads = ("task", "seed", "record", "key", "origin")
        table = tag("table", tag("thead", tag("tr", *(tag("th", h, scope="col") for h in heads))), tag("tbody", *rows))
        box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Records of {label}")
        parts.append(section(slug(label), label, box))
    return page("Records", *parts)


def _row(board: Board, out: Path, path: Path, record: Record, origin: int, near: bool, identity: str | None) -> Safe:
    name = path.relative_to(board.folder).as_posix()
    link = quote(Path(os.path.relpath(path.resolve(), out.resolve())).as_posix())
    cell = record["cell"]
    return tag(
        "tr",
        tag("th", board.name((cell["task"], cell["data"], cell["model"])), scope="row"),
        tag("td", str(cell["seed"])),
        tag("td", tag("a", path.name, href=link) if near else text(name), class_="word"),
        tag("td", tag("code", record["key"][:12])),
        tag("td", tag("a", str(origin), href=f"#origin-{origin}")),
        id=identity,
    )


def _near(folder: Path, out: Path) -> bool:
    """Whether the report lies in the folder of the run, or beside it: they are likely to be moved together."""
    return out.resolve().is_relative_to(folder.resolve()) or out.resolve().parent == folder.resolve().parent


def _origin(record: Record) -> str:
    """Commit, versions and machine in one line."""
    came = record["provenance"]
    commit = f"commit {came['commit'] or 'unknown'}" + (" with changes" if came["dirty"] else "")
    packages = ", ".join(f"{name} {version}" for name, version in came["packages"].items() if version)
    return f"{commit}; {machine(record)}; {came['system']}; Python {came['python']}; {packages}"
