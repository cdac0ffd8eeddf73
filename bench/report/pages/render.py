"""Pages from templates: every string is escaped unless it is marked as safe. Pages need nothing outside the report."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

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
    """Paragraphs of a docstring, with text between backticks as code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip()):
        pieces = re.split(r"``(.+?)``|`(.+?)`", " ".join(paragraph.split()))
        code = Markup("<code>{}</code>")
        inside = Markup("").join(code.format(p) if n % 3 else p for n, p in enumerate(pieces) if p)
        paragraphs.append(Markup("<p>{}</p>").format(inside))
    return Markup("").join(paragraphs)


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
    made.filters |= {"slug": links.slug, "prose": prose}
    made.globals |= {
        "generator": GENERATOR,
        "style": Markup(style()),
        "script": Markup((FOLDER / "page.js").read_text(encoding="utf-8")),
        "method_link": links.method_link,
        "task_link": links.task_link,
        "task_slug": links.task_slug,
        "records_link": links.records_link,
    }
    return made
