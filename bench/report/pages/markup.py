"""HTML by construction: what is not markup already is escaped, so no name can break out of its place."""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape

VOID = {"meta", "link", "input", "br", "col"}
LONGEST = 60  # characters of a file name


class Safe(str):
    """Text that is markup already."""


def tag(name: str, /, *children: str, **attributes: str | int | bool | None) -> Safe:
    """An element. ``class_`` is class, ``data_v`` is data-v; an attribute that is None or False is left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    parts.append(">")
    return Safe("".join(parts) + ("" if name in VOID else f"{text(*children)}</{name}>"))


def text(*children: str) -> Safe:
    """Children one after another, escaped where they are not markup."""
    return Safe("".join(child if isinstance(child, Safe) else escape(child) for child in children))


def slug(name: str) -> str:
    """A file name for ``name``, its own: what had to be changed gets a digest, as do capitals (disks may ignore them).

    >>> slug("michel"), slug("a/b")
    ('michel', 'a_b-c14cdd')
    """
    plain = re.sub(r"[^a-z0-9._=+-]", "_", name.lower()).strip(".")[:LONGEST]
    return plain if plain and plain == name else f"{plain or 'x'}-{sha256(name.encode()).hexdigest()[:6]}"


def prose(docstring: str) -> Safe:
    """Paragraphs of a docstring; what stands between backticks is code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip()):
        pieces = re.split(r"``(.+?)``|`(.+?)`", " ".join(paragraph.split()))
        children = [piece if index % 3 == 0 else tag("code", piece) for index, piece in enumerate(pieces) if piece]
        paragraphs.append(tag("p", *children))
    return text(*paragraphs)
