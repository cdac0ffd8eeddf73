"""Errors of other libraries are told in one plain line."""

from __future__ import annotations

import pytest

from bench.exports.errors import in_one_line
from bench.records.errors import InputError


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("\x1b[1;31mno such operator\x1b[0m\nat node 3", "no such operator"),
        ("\x1b[31m\n\x1b[0m \n  second line", "second line"),
        ("\x1b[2K\x1b[38;5;196mred\x1b[m", "red"),
        ("an array [1m] stays", "an array [1m] stays"),
        ("", ""),
    ],
)
def test_an_error_is_one_line_without_colours(message, reason):
    with pytest.raises(InputError) as found, in_one_line("not written", "do without"):
        raise RuntimeError(message)
    assert str(found.value) == f"not written (RuntimeError: {reason}): do without"
