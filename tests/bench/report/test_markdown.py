"""Text as it stands in Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.tables.markdown import literal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Li, Cotterell & Sachan; R&D &copy", "Li, Cotterell & Sachan; R&D &copy"),  # no entity: as terminals show it
        ("&amp; &#38; &#x26;", r"\&amp; \&#38; \&#x26;"),
        ("_a_ b_c __d", r"\_a\_ b_c \_\_d"),
        ("a|b <c> *d* [e](f)\n`g`", r"a\|b \<c\> \*d\* \[e\](f) \`g\`"),
    ],
)
def test_what_would_be_markup_alone_is_escaped(text, expected):
    assert literal(text) == expected


@given(st.text("ab &#;<|\\*", max_size=20))
def test_without_escapes_it_is_the_text_and_no_entity_is_left(text):
    escaped = literal(text)
    assert re.sub(r"\\(.)", r"\1", escaped) == " ".join(text.split())
    assert not re.search(r"(?<!\\)(\\\\)*&#?\w+;", escaped)
