"""One figure, two uses: files for a paper, and an SVG inside a page whose colours follow the page's."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

INK, MUTED, FAINT, PAPER = "#1b1f24", "#667079", "#c8ced3", "#ffffff"
# Okabe and Ito's colours, told apart without full colour vision; markers do the same in grey.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
# CSS variables of the colours: a page gives each a value for light and one for dark.
ROLES = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper"} | {
    colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 9,
    "text.color": INK,
    "patch.edgecolor": INK,
    "lines.markeredgewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
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
FORMS = ("svg", "pdf")  # for the screen, and for paper
DOTS = 105  # dots per inch of the bitmap
METADATA: dict[str, dict[str, str | None]] = {  # without dates and versions: the same figure gives the same bytes
    "svg": {"Date": None, "Creator": None},
    "pdf": {"Creator": None, "CreationDate": None, "Producer": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class Picture:
    """A figure with its caption, its files and its markup."""

    name: str  # of its files, without an ending
    title: str
    caption: str
    files: dict[str, bytes]  # by ending; empty where it is only drawn in a page
    inline: Markup  # the SVG for a page


def picture(name: str, title: str, caption: str, draw: Callable[[], Figure], forms: Sequence[str] = FORMS) -> Picture:
    """Draw a figure and its files in ``forms`` (svg, pdf, png). The same figure gives the same bytes."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():  # ids differ between figures
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the viewer has its own fonts
        figure = draw()
        files = {form: _saved(figure, form, title) for form in dict.fromkeys([*forms, "svg"])}
    # Figures of several tasks have one title, and their captions tell them apart.
    inline = _inline(files["svg"].decode(), f"{title}: {caption}" if caption else title)
    return Picture(name, title, caption, {form: files[form] for form in forms}, inline)


def _saved(figure: Figure, form: str, title: str) -> bytes:
    content = io.BytesIO()
    metadata = METADATA[form] | ({} if form == "png" else {"Title": title})
    figure.savefig(content, format=form, metadata=metadata, dpi=DOTS if form == "png" else "figure")
    return _few_colours(content) if form == "png" else content.getvalue()


def _few_colours(png: io.BytesIO) -> bytes:
    """The bitmap with a palette: a third of the bytes, and no visible difference.

    (Of other ways to choose one, a median cut mixes colours that are rare, such as those of thin lines.)
    """
    content = io.BytesIO()
    Image.open(png).convert("RGB").quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        content, "png", optimize=True
    )
    return content.getvalue()


def _inline(svg: str, name: str) -> Markup:
    """The SVG for a page: with the page's colours and without what the page has already, or has once only."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found
    inside = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    inside = re.sub(r"<(metadata|title|style).*?</\1>|<!--.*?-->", "", inside, flags=re.DOTALL)
    inside = re.sub(r'<g id="[^"]*"', "<g", inside)  # names of groups are the same in every figure
    for colour, role in ROLES.items():
        inside = inside.replace(colour, f"var(--{role})")
    width = round(float(found[1]) * 4 / 3)  # a point is 4/3 pixels
    opening = Markup('<svg viewBox="0 0 {} {}" width="{}" role="img" aria-label="{}">')
    return opening.format(found[1], found[2], width, name) + Markup(inside) + Markup("</svg>")
