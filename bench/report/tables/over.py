"""The columns that compare each method with its controls, as the leaderboard and the pages show them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from bench.analysis.comparing.over_controls import Over
from bench.analysis.kinds import KINDS, RECOVERED, TRAINED
from bench.analysis.naming import fixed, p_equals
from bench.report.tables.table import Cell, Heading

TESTED = "p of the sign-flip test, adjusted for all methods of the kind"


class Column(NamedTuple):
    """A control, by what it controls for (``bench.analysis.comparing.controls.controls_of``)."""

    headings: Mapping[str, str]  # in the table of a kind
    short: str  # in a table of all kinds
    help: str


OVER = {
    "random": Column(
        dict.fromkeys(KINDS, "over random choice"),
        "over random",
        "Points of quality, averaged over the shares removed, above the control that chooses at random and whose "
        f"weights are treated alike; {TESTED}",
    ),
    "michel": Column(
        {TRAINED: "over michel's choice"},
        "over michel",
        f"Points above the trained control with the heads that michel chooses; {TESTED}",
    ),
    "untreated": Column(
        {RECOVERED: "over no recovery", TRAINED: "over recovery alone"},
        "over untreated",
        "Points of a recovered method above the same one without recovery, and of a trained one above weights that are "
        f"recovered without training; {TESTED}",
    ),
}


def heading(role: str) -> Heading:
    """Its heading in a table of all kinds."""
    return Heading(OVER[role].short, f"over_{role}", OVER[role].help)


def over_cell(over: Over | None, href: str = "") -> Cell:
    """The difference in points, with its p-value or the seeds that one needs."""
    if over is None:
        return Cell("–", math.nan)
    found = over.difference
    tested = f"needs {found.seeds_needed(over.tests)} seeds" if over.p is None else p_equals(over.p)
    more = () if over.p is None else (("p", over.p),)
    return Cell(fixed(found.mean, 1, "+"), found.mean, f" ({tested})", more, href)
