"""The frame of every page: head, navigation, style and script; nothing is asked for from outside the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from bench.report.figures.picture import Picture
from bench.report.pages.markup import Safe, tag, text
from bench.report.tables import table as tables
from bench.report.tables.table import Table

GENERATOR = "headbench report"  # by which a folder is known to be a report, and may be replaced

PLACES = (
    ("headbench", "index.html"),
    ("Leaderboard", "index.html#table"),
    ("Curves", "index.html#curves"),
    ("Methods", "index.html#methods"),
    ("Tasks", "index.html#tasks"),
    ("Records", "records.html"),
)


def page(title: str, *content: str, root: str = "", script: bool = False, links: bool = True) -> bytes:
    """A whole page; ``root`` leads from its folder to the report's. Without ``links`` it stands alone."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=GENERATOR),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href=f"{root}page.css") if root else tag("style", Safe(style())),
    )
    nav = tag("nav", *(tag("a", shown, href=root + href) for shown, href in PLACES), aria_label="Report")
    parts = [tag("header", nav)] if links else []
    parts.append(tag("main", tag("h1", title), *content))
    parts += [tag("script", Safe(_file("page.js")))] if script else []
    body = tag("body", *parts)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n".encode()


def section(identity: str, heading: str, *content: str) -> Safe:
    """A part of a page that a link can lead to."""
    return tag("section", tag("h2", heading, id=identity), *content)


def figure(picture: Picture, root: str = "", wide: bool = False) -> Safe:
    """A picture with links to its files; a ``wide`` one scrolls by itself on a phone."""
    files = [
        text(" · " if place else "", tag("a", ending.upper(), href=f"{root}figures/{picture.name}.{ending}"))
        for place, ending in enumerate(picture.files)
    ]
    drawn = tag("div", picture.inline, class_="scroll", tabindex="0", role="region", aria_label=picture.title)
    caption = tag("figcaption", picture.alt, " ", *files)
    return tag("figure", drawn if wide else picture.inline, caption, class_="wide" if wide else None)


def grid(pictures: Iterable[Picture], root: str = "") -> Safe:
    """Pictures beside each other where there is room."""
    return tag("div", *(figure(picture, root) for picture in pictures), class_="grid")


def shown(table: Table, root: str = "", interactive: bool = False) -> Safe:
    """A table with links to its files."""
    files = [tag("a", ending, href=f"{root}tables/{table.name}.{ending.lower()}") for ending in ("CSV", "TeX")]
    return text(tables.html(table, interactive), tag("p", files[0], " · ", files[1], class_="quiet"))


def listed(items: Sequence[str]) -> Safe:
    """A list of lines."""
    return tag("ul", *(tag("li", item) for item in items))


def style() -> str:
    """The style sheet; pages in folders of the report share the file ``page.css``, the others hold it."""
    return _file("page.css")


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
