"""Maps of kept heads as small bitmaps, which pages hold by the hundred: one pixel per head, one row per layer."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from bench.report.figures.picture import SERIES

STEPS = 14  # shades; one more stands for no head
FAINTEST = 26  # opacity of a head that is never kept, of 255
CELL, WIDEST = 10, 200  # pixels of a page: a head at most, and a map


def bitmap(layers: Sequence[np.ndarray]) -> bytes:
    """A PNG of shares, 0 to 1, for each layer (heads,): the larger, the less transparent; no head is blank."""
    pixels = np.full((len(layers), max(map(len, layers))), STEPS, dtype=np.uint8)
    for row, shares in zip(pixels, layers, strict=True):
        row[: len(shares)] = np.round(np.asarray(shares) * (STEPS - 1))
    image = Image.fromarray(pixels, mode="P")
    colour = bytes.fromhex(SERIES[0].removeprefix("#"))
    image.putpalette(colour * (STEPS + 1))
    opacity = np.linspace(FAINTEST, 255, STEPS).round().astype(np.uint8).tobytes() + b"\0"
    content = io.BytesIO()
    image.save(content, "png", transparency=opacity, bits=4, optimize=True)
    return content.getvalue()


def address(png: bytes) -> str:
    """The address that holds the bitmap itself."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def size(layers: Sequence[np.ndarray]) -> tuple[int, int]:
    """Width and height in pixels of a page."""
    wide = max(map(len, layers))
    cell = max(2, min(CELL, WIDEST // wide))
    return cell * wide, cell * len(layers)
