"""Errors of bad input, each in one line: what is wrong, where, what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

CONTINUE = "finished cells are kept: run the command again to continue"  # said where a run ends early


class InputError(ValueError):
    """Bad input. The message is one line, and the command line ends with exit code 2."""


class InputErrors(InputError):
    """Several faults of one input. about: the first line, which says how many; faults: one line for each."""

    def __init__(self, about: str, faults: Iterable[str]):
        self.lines = (f"{about}:", *faults)
        super().__init__(" ".join(self.lines))


def unknown(kind: str, name: str, known: Iterable[str], reasons: Iterable[str] = ()) -> InputError:
    """The error for a ``name`` that is not one of ``known``: ``reasons``, and the nearest or a list of all.

    Of names with options, as ``michel:recover=lstsq``, those that begin alike are nearer than all others.
    """
    names = sorted(known)
    alike = [each for each in names if each.partition(":")[0] == name.partition(":")[0]]
    near = get_close_matches(name, alike or names, n=1, cutoff=0.3 if alike else 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}: {'; '.join([*reasons, hint])}")


def first_complaint(error: ValidationError) -> str:
    """The first field of a record that is wrong, and why: ``result.units: Field required``."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("done", "failed"))
    return f"{place or 'record'}: {first['msg']}"


class Changed(InputError):
    """Data or a model that were changed while a run used them."""


class CorruptRecord(InputError):
    """A record file that is not what was written."""


class OtherProtocol(ValueError):
    """A record that was made under another protocol; it may not even have the fields of this one."""
