"""Which control removes the same parts as a method, but at random."""

from __future__ import annotations

from collections.abc import Mapping

from bench.analysis.curves import removes
from bench.records.schema import FinishedRecord

RANDOM = ("random", "random-both")  # methods that remove at random, and train nothing


def random_control(records: Mapping[str, FinishedRecord], parts: str) -> str:
    """Label of the control that removes these ``parts`` (``bench.analysis.curves.removes``) at random.

    records: one of each method, by its label. Of several controls, one with its usual options; empty without any.
    """
    found = [label for label, record in records.items() if record.cell.method in RANDOM and removes(record) == parts]
    return min(found, key=lambda label: (label not in RANDOM, label), default="")
