"""What other libraries say of an export: errors in one line, logs not at all."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from bench.records.errors import InputError

COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # what sets the colour of text in a terminal, or moves its cursor


@contextmanager
def in_one_line(what: str, instead: str = "") -> Iterator[None]:
    """Report an error of another library inside, of whatever kind, as an InputError that begins with ``what``.

    instead: what the user can do. Errors of files and folders stay what they are: others know their paths.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        plain = COLOURS.sub("", str(error))
        reason = next((line.strip() for line in plain.splitlines() if line.strip()), "")
        end = f": {instead}" if instead else ""
        raise InputError(f"{what} ({type(error).__name__}: {reason}){end}") from error


@contextmanager
def without_logs(level: int) -> Iterator[None]:
    """Inside, no library logs anything of ``level`` or below."""
    disabled = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(disabled)
