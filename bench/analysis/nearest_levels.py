"""Quality at the measured levels nearest to the usual ones, in a run that measured none of those."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.analysis.curves import curve
from bench.records.protocol import nearest_count
from bench.records.schema import FinishedRecord

if TYPE_CHECKING:  # slow to import
    import pandas as pd

USUAL = {"at50": 0.5, "at75": 0.75}  # columns of a metrics table, with the share of heads removed
AT = re.compile(r"at([0-9]+)(?:to([0-9]+))?")  # such a column, with the share, or the least and the most, in per cent


def with_nearest(table: pd.DataFrame, records: Sequence[FinishedRecord]) -> pd.DataFrame:
    """A metrics table of ``records`` with other columns in place of ``USUAL``, if no record has a value there.

    Each has the level nearest to one of these, and says in its name which that is: ``at31to33`` where models have
    different numbers of heads. Two that are the same level are one column.
    """
    place = list(table.columns).index(next(iter(USUAL)))
    if table[[*USUAL]].notna().any(axis=None) or not all(map(_between, records)):
        return table
    found = {}
    for share in USUAL.values():
        counts = [nearest_count(share, _between(record), record.result.units) for record in records]
        cells = list(zip(records, counts, strict=True))
        shares = [round(100 * count / record.result.units) for record, count in cells]
        name = f"at{min(shares)}" + (f"to{max(shares)}" if min(shares) < max(shares) else "")
        found[name] = [float(curve(record)[1][record.result.removed.index(count)]) for record, count in cells]
    table = table.drop(columns=[*USUAL])
    for number, (name, values) in enumerate(found.items()):
        table.insert(place + number, name, values)
    return table


def _between(record: FinishedRecord) -> list[int]:
    """Numbers of units removed at the levels between nothing and everything."""
    return [count for count in record.result.removed if 0 < count < record.result.units]
