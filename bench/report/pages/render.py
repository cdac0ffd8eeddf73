"""Pages from templates: every string is escaped unless it is marked as safe. Pages need nothing outside the report."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bench.analysis.naming import by_reason, count
from bench.report import links

FOLDER = Path(__file__).parent
GENERATOR = "headbench report"


def render(template: str, **values: Any) -> bytes:
    """The page that a template makes of ``values``."""
    return _environment().get_template(template).render(values).encode()


def style() -> str:
    """The style sheet: pages in folders of the report share the file ``page.css``, the others contain it."""
    return (FOLDER / "page.css").read_text(encoding="utf-8")


def prose(docstring: str) -> Markup:
    """A docstring as paragraphs, lists of items after ``-`` and indented formulas; between backticks is code."""
    paragraphs = []
    for paragraph in filter(None, re.split(r"\n\s*\n", docstring.strip())):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            paragraphs.append(Markup("<pre>{}</pre>").format(dedent(paragraph)))  # a formula
            continue
        lead, *items = re.split(r"\n\s*- ", f"\n{paragraph}")
        if lead.strip():
            paragraphs.append(Markup("<p>{}</p>").format(_with_code(lead)))
        if items:
            each = Markup("").join(Markup("<li>{}</li>").format(_with_code(item)) for item in items)
            paragraphs.append(Markup("<ul>{}</ul>").format(each))
    return Markup("").join(paragraphs)


def breakable(name: str) -> Markup:
    """The name of a method, which may be broken before its options and between them."""
    return Markup("<wbr>").join(re.split(r"(?<=[:,])", name))


def _with_code(text: str) -> Markup:
    """One line, with text between backticks as code."""
    pieces = re.split(r"``(.+?)``|`(.+?)`", " ".join(text.split()))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if n % 3 else piece for n, piece in enumerate(pieces) if piece)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"slug": links.slug, "prose": prose, "by_reason": by_reason, "count": count}
    made.globals |= {
        "breakable": breakable,
        "generator": GENERATOR,
        "style": Markup(style()),
        "script": Markup((FOLDER / "page.js").read_text(encoding="utf-8")),
        "method_link": links.method_link,
        "task_link": links.task_link,
        "task_slug": links.task_slug,
        "records_link": links.records_link,
    }
    return made
