"""How much to keep, as people write it."""

from __future__ import annotations

from bench.records.errors import InputError
from bench.records.protocol import count_at
from bench.suites.parse import MethodSpec
from bench.suites.shares import fraction
from methods import METHODS
from methods.heads import HeadMap

AUTO = "auto"  # the number that the method itself chooses


def units_to_keep(text: str, units: int) -> int:
    """``0.5``, ``50%`` or a whole number of units, as a number of units. Raises InputError."""
    share = text.endswith("%") or "." in text
    number = fraction(text)
    if not 0 <= number <= (1 if share else units) or not (share or number.is_integer()):
        raise InputError(
            f"--keep {text}: expected a share such as 0.5 or 50%, a number of units from 0 to {units}, or {AUTO}"
        )
    keep = count_at(number, units) if share else int(number)
    if number and not keep:
        raise InputError(
            f"--keep {text}: less than half of one of {units} units, so none would stay: give a larger share, or 0"
        )
    return keep


def check_chooses(method: MethodSpec) -> None:
    """Raise InputError unless ``method`` can choose how many units it keeps."""
    if METHODS[method.name].own_number is None:
        known = ", ".join(sorted(name for name, each in METHODS.items() if each.own_number))
        raise InputError(f"--keep {AUTO}: {method.name} needs a number; methods that choose one themselves: {known}")


def check_enough(text: str, keep: int, heads: HeadMap) -> None:
    """Raise InputError if ``keep`` units, which ``--keep`` asks for, are fewer than must stay."""
    least = len(heads.never_empty)
    if keep < least:
        raise InputError(
            f"--keep {text}: {least} of {len(heads.sites)} attention modules of this model cannot run without any "
            f"head: keep at least {least} of {len(heads)} units"
        )
