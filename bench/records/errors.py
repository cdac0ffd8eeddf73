"""What the command line says of input that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input in one line: what is wrong, where, what would be right. The command ends with exit code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is none of ``known``, with the nearest of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}: {hint}")
