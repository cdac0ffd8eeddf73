"""A method's page: what it is, how it did, what it cost, and its records."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from bench.report.board import Board, kind
from bench.report.figures.picture import Picture
from bench.report.pages.layout import grid, page, section, shown
from bench.report.pages.links import records_of
from bench.report.pages.markup import Safe, prose, tag, text
from bench.report.standing import Standing
from bench.report.tables.table import Table, html
from methods import METHODS


def method_page(
    board: Board,
    label: str,
    found: Standing | None,
    by_task: Table,
    stability: Table | None,
    pictures: Sequence[Picture],
    layers: Sequence[Table],
) -> bytes:
    """The page of the method ``label``, one folder below the report's."""
    record = board.any_of(label)
    tier = found.tier(label) if found else None
    facts = [
        ("kind", kind(record)),
        ("source", record.cell.source),
        ("options", _options(record.cell.options)),
        ("shape", record.cell.shape),
    ]
    facts += [("tier", f"{tier} of {len(found.tiers.members)}")] if tier and found and found.tiers else []
    if found and label in found.unranked:
        facts.append(("not ranked", found.unranked[label]))
    parts = [
        tag("dl", *(text(tag("dt", term), tag("dd", told or "")) for term, told in facts)),
        section("definition", "Definition", _definition(record.cell.method)),
        section("results", "Results and cost by task", shown(by_task, "../")),
    ]
    if pictures:
        parts.append(section("curves", "Curves", grid(pictures, "../")))
    if layers:
        parts.append(section("layers", "Heads kept in each layer", *map(html, layers)))
    if stability:
        parts.append(section("stability", "Stability of its orders", html(stability)))
    parts.append(tag("p", tag("a", "The records of every number here", href=records_of(label, root="../"))))
    return page(label, *parts, root="../")


def _definition(name: str) -> Safe:
    """The docstring and options of the method as installed; a record knows a method that is not by its name alone."""
    method = METHODS.get(name)
    if method is None:
        return tag("p", f"The method {name} is not installed here, so its definition cannot be shown.")
    options = [
        text(
            tag("dt", tag("code", f"{option.name}={_plain(method.configure({})[option.name])}")), tag("dd", option.help)
        )
        for option in method.options.values()
    ]
    parts = [prose(inspect.getdoc(method.function) or "It has no description.")]
    if method.name != method.base:
        parts.insert(0, tag("p", "Short for ", tag("code", METHODS[method.base].label(method.configure({}))), "."))
    return text(*parts, tag("h3", "Options and their defaults"), tag("dl", *options) if options else tag("p", "None."))


def _options(options: dict[str, object]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in options.items()) or "none"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
