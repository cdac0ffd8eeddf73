"""Types of flags: what a text stands for, or the complaint that argparse tells."""

import math
from argparse import ArgumentTypeError
from pathlib import Path

LEAST_TRAINING = 1e-6  # no task trains its own model for a million steps: less is less than one step


def number(text: str) -> float:
    """``text`` as a number; NaN, which lies in no range, where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def fraction(text: str) -> float:
    """``0.5`` or ``50%`` as 0.5; NaN where it is neither."""
    return number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def positive(text: str) -> int:
    """A whole number, at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"expected a whole number, at least 1, not {text!r}")
    return number


def share(text: str) -> float:
    """A share over 0, at most 1."""
    share = number(text)
    if not 0 < share <= 1:
        raise ArgumentTypeError(f"expected a share over 0, at most 1, not {text!r}")
    return share


def training(text: str) -> float:
    """A share of a task's own training, at most 1, and enough to be a step."""
    share = number(text)
    if not LEAST_TRAINING <= share <= 1:
        raise ArgumentTypeError(
            f"expected a share from {LEAST_TRAINING:.6f}, less being no step at all, to 1, not {text!r}"
        )
    return share


def level(text: str) -> float:
    """A share from 0 to 1, or a percentage."""
    level = fraction(text)
    if not 0 <= level <= 1:
        raise ArgumentTypeError(f"expected a share from 0 to 1, or a percentage such as 50%, not {text!r}")
    return level


def points(text: str) -> float:
    """Points of accuracy, 0 to 100."""
    points = number(text)
    if not 0 <= points <= 100:
        raise ArgumentTypeError(f"expected points of accuracy, from 0 to 100, not {text!r}")
    return points


def whole(text: str) -> int:
    """A whole number, at least 0."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise ArgumentTypeError(f"expected a whole number, at least 0, not {text!r}")
    return int(text)


def filled(text: str) -> str:
    """Text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("expected a value, not an empty one")
    return text


def path(text: str) -> Path:
    """A path that is not empty: the current folder is ``.``."""
    return Path(filled(text))


def file(text: str) -> Path:
    """A path to write a file to, in a folder that is there."""
    given = path(text)
    if given.is_dir():
        raise ArgumentTypeError(f"expected a file to write, and {text!r} is a folder")
    if not given.parent.is_dir():
        raise ArgumentTypeError(f"no such folder: {str(given.parent)!r}")
    return given
