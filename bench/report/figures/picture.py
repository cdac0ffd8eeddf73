"""One figure, two uses: files for a paper, and markup for a page whose colours follow the page's."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from bench.report.figures.overview import COLOURS, STYLE
from bench.report.pages.markup import Safe, tag

INK, MUTED, FAINT, PAPER = "#1b1f24", "#667079", "#c8ced3", "#ffffff"
SERIES = tuple(colour.lower() for colour in COLOURS)
# What a colour is for: a page gives each of these variables a value for light and one for dark.
ROLES = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)
}
LOOK: dict[Any, Any] = STYLE | {
    "pdf.fonttype": 42,  # text stays text
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "legend.frameon": False,
}
FONTS = "system-ui, 'DejaVu Sans', Verdana, Arial, sans-serif"
FORMS = ("svg", "pdf")  # for the screen, and for paper
DOTS = 105  # dots per inch of the bitmap


@dataclass(frozen=True)
class Picture:
    """A figure by the name of its files, without an ending."""

    name: str
    title: str
    alt: str  # what it shows, in a sentence below it
    files: dict[str, bytes]  # by ending; empty where it is drawn in a page only
    inline: Safe


def picture(name: str, title: str, alt: str, draw: Callable[[], Figure], forms: Sequence[str] = FORMS) -> Picture:
    """Draw a figure, and files of it in ``forms`` (svg, pdf, png). The same figure gives the same bytes."""
    with mpl.rc_context(LOOK | {"svg.hashsalt": name}), warnings.catch_warnings():  # ids differ from figure to figure
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the viewer has its own fonts
        figure = draw()
        svg = _saved(figure, "svg", {"Date": None, "Title": title, "Creator": None})
        made = {}
        if "svg" in forms:
            made["svg"] = _smaller(svg.decode()).replace("<svg ", f'<svg font-family="{FONTS}" ', 1).encode()
        if "pdf" in forms:
            told = {"Creator": None, "Title": title, "CreationDate": None, "Producer": None}
            made["pdf"] = _saved(figure, "pdf", told)
        if "png" in forms:
            made["png"] = _few_colours(_saved(figure, "png", {"Software": None}))
    return Picture(name, title, alt, made, _inline(svg.decode(), title))


def _saved(figure: Figure, form: str, metadata: dict[str, str | None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=form, metadata=metadata, dpi=DOTS if form == "png" else "figure")
    return content.getvalue()


def _few_colours(png: bytes) -> bytes:
    """The bitmap with a palette: a quarter of the bytes, and no difference that one sees."""
    content = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(
        content, "png", optimize=True
    )
    return content.getvalue()


def _smaller(svg: str) -> str:
    """Coordinates to a tenth of a point; without groups that only name a part, comments, and turns by nothing."""
    kept: list[bool] = []

    def ungrouped(found: re.Match[str]) -> str:
        if found[0] == "</g>":
            return found[0] if kept.pop() else ""
        kept.append(not re.fullmatch(r'<g( id="[^"]*")?>', found[0]))
        return found[0] if kept[-1] else ""

    svg = re.sub(r"<g\b[^>]*>|</g>", ungrouped, re.sub(r"<g\b[^>]*/>", "", svg))
    svg = re.sub(r"<!--.*?-->| transform=\"rotate\(-0 [^)]*\)\"|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"; stroke-line(cap|join): \w+|; font-family: [^;\"]*|(?<=font-size: )0(?=\.)", "", svg)
    svg = re.sub(r"font: (?:[\w.]+ )*?([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    svg = re.sub(r'(?<= d=")[^"]*', _shorter, svg)
    ending = r'" (clip-path="[^"]*" )?style="((?:(?!opacity)[^"])*)"/>\n'
    svg = re.sub(rf'<path d="[^"]*{ending}(?:<path d="[^"]*" (?(1)\1)style="\2"/>\n)+', _one_path, svg)
    svg = re.sub(r"(?:<use [^>]*/>\n<text [^>]*>[^<]*</text>\n){2,}", _apart, svg)
    svg = re.sub(r'(?:<use [^>]* style="([^"]*)"/>\n)(?:<use [^>]* style="\1"/>\n)+', _same_style, svg)
    text = r"[^>]*>[^<]*</text>\n"
    svg = re.sub(rf'<text style="([^"]*)"{text}(?:<text style="\1"{text})+', _same_style, svg)
    return re.sub(r"(?<=[ \"(,\n-])\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), svg)


def _shorter(found: re.Match[str]) -> str:
    """A path with numbers to a tenth and no more signs than it needs; sides of upright boxes as H and V."""
    path = re.sub(r"\d+\.\d{2,}", lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), found[0])
    path = re.sub(r"\s*([A-Za-z])\s*", r"\1", path).strip()
    n = r"(-?[\d.]+)"
    box = rf"M{n} {n}L{n} \2L\3 {n}L\1 \4(?:L\1 \2)?z"
    path = re.sub(box, r"M\1 \2H\3V\4H\1z", path)
    path = re.sub(rf"M{n} {n}L\1 {n}(?=[Mz]|$)", r"M\1 \2V\3", path)
    return re.sub(rf"M{n} {n}L{n} \2(?=[Mz]|$)", r"M\1 \2H\3", path)


def _one_path(found: re.Match[str]) -> str:
    """Paths of one style as one."""
    paths = re.findall(r'<path d="([^"]*)"', found[0])
    return f'<path d="{"".join(paths)}" {found[1] or ""}style="{found[2]}"/>\n'


def _apart(found: re.Match[str]) -> str:
    """Marks and words in turn, as those of ticks: first all marks, then all words, so that each can share a style."""
    lines = found[0].splitlines(keepends=True)
    return "".join([*lines[::2], *lines[1::2]])


def _same_style(found: re.Match[str]) -> str:
    """Marks, or words, of one style, in a group that says it once."""
    style = f' style="{found[1]}"'
    return f"<g{style}>\n{found[0].replace(style, '')}</g>\n"


def _inline(svg: str, title: str) -> Safe:
    """The SVG for a page: it takes the page's font and colours, and is called by its title."""
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    assert box
    inside = body[body.index(">") + 1 : body.rindex("</svg>")]
    inside = re.sub(r"<title>.*?</title>|<style.*?</style>", "", _smaller(inside), flags=re.DOTALL)
    for colour, role in ROLES.items():
        inside = inside.replace(colour, f"var(--{role})")
    inside = inside.replace("; fill: var(--ink)", "")  # what the page fills with
    inside = re.sub(r'(<use [^>]*) style="fill: (var\(--\w+\)); stroke: \2; stroke-width: 0.8"', r"\1", inside)  # ticks
    return tag(
        "svg",
        Safe(inside),
        viewBox=f"0 0 {box[1]} {box[2]}",
        width=round(float(box[1]) * 4 / 3),  # a point is 4/3 pixels
        role="img",
        aria_label=title,
        xmlns="http://www.w3.org/2000/svg",
    )
