"""Types of flags: text to value, or the complaint that argparse shows."""

import errno
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from bench.suites.shares import fraction, number, training_share

LONGEST = 40  # digits of a number


def _from(least: int) -> Callable[[str], int]:
    def convert_flag(text: str) -> int:
        digits = text.isdecimal()
        if digits and len(text) > LONGEST:  # of very many digits int makes an error of its own
            raise ArgumentTypeError(f"expected a smaller number, not one of {len(text)} digits")
        if not digits or int(text) < least:
            raise ArgumentTypeError(f"expected a whole number, at least {least}, not {text!r}")
        if int(text) >= 2**63:
            raise ArgumentTypeError(f"expected a smaller number than {text!r}")
        return int(text)

    return convert_flag


positive, whole = _from(1), _from(0)


def _in_range(convert: Callable[[str], float], allowed: Callable[[float], bool], expected: str):
    def convert_flag(text: str) -> float:
        value = convert(text)
        if not allowed(value):
            raise ArgumentTypeError(f"expected {expected}, not {text!r}")
        return value

    return convert_flag


share = _in_range(number, lambda value: 0 < value <= 1, "a share above 0, at most 1")
probability = _in_range(number, lambda value: 0 < value < 1, "a probability between 0 and 1")
level = _in_range(fraction, lambda value: 0 <= value <= 1, "a share from 0 to 1, or a percentage such as 50%")
seconds = _in_range(number, lambda value: 0 < value < float("inf"), "a number of seconds, above 0")
gpus = _in_range(
    number,
    lambda value: 1e-4 <= value < 1 or value in range(1025),  # Ray counts ten-thousandths
    "a share of a GPU from 0.0001 on, or a whole number",
)
real = _in_range(number, lambda value: value == value, "a number")
points = _in_range(number, lambda value: 0 <= value <= 100, "points of accuracy, from 0 to 100")


def training(text: str) -> float:
    """A share of a task's own training: at most 1, and at least one step."""
    try:
        return training_share(number(text))
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, not {text!r}") from error


def filled(text: str) -> str:
    """Text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("expected a value, not an empty one")
    return text


def path(text: str) -> Path:
    """A path that is not empty: the current folder is ``.``, and ``~`` the user's, also where no shell says so."""
    try:
        given = Path(filled(text)).expanduser()
        given.stat()
    except RuntimeError as error:
        raise ArgumentTypeError(f"expected a path, and {text!r} begins with a user that is not known here") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArgumentTypeError(f"expected a path, and {text!r} is a symbolic link that leads to itself") from error
    return given


def file(text: str) -> Path:
    """A path for a file to write, in a folder that exists."""
    given = path(text)
    if given.is_dir():
        raise ArgumentTypeError(f"expected a file to write, and {text!r} is a folder")
    if not given.parent.is_dir():
        raise ArgumentTypeError(f"no such folder: {str(given.parent)!r}")
    return given
