"""A run on disk with all that a report draws: methods of each kind, two tasks, six seeds, a hostile name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.records.schema import FailedRecord, FinishedRecord, Record
from bench.records.storage.store import Store
from bench.report.board import Board, make_board
from bench.report.figures.picture import STYLE
from bench.report.links import slug
from bench.report.write import report

UNITS, REMOVED = 8, (0, 2, 4, 6, 8)
HOSTILE = "<script>alert('x')</script>&\"${}"
# By label: quality at half of the heads, in per cent of the way from chance to unpruned, and other fields.
METHODS: dict[str, tuple[float, dict[str, Any]]] = {
    "michel": (80, {}),
    "ae": (60, {}),
    HOSTILE: (50, {}),
    "voita": (95, {"trained": 0.1}),
    "random": (40, {"control": True}),
    "none": (100, {"control": True, "kept": [list(range(UNITS))] * len(REMOVED)}),
    "amp": (70, {"neurons": True}),
}
VOID = {"meta", "link", "input", "br", "col", "img", "wbr"}


class Page(HTMLParser):
    """The links, ids, resources and text of a page, and the rows of its tables with the bare value of each cell."""

    def __init__(self, content: str):
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.groups: list[str] = []  # headings of groups of rows, which are no rows of the tables
        self.in_group = False
        self.open: list[str] = []
        self.feed(content)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, name: str, pairs: list[tuple[str, str | None]]) -> None:
        attributes = dict(pairs)
        if name not in VOID:
            self.open.append(name)
        if identity := attributes.get("id"):
            self.ids.append(identity)
        if name == "a" and (href := attributes.get("href")):
            self.links.append(href)
        if name != "a":
            self.resources += [
                value for key, value in pairs if key in ("src", "href", "xlink:href", "action") and value
            ]
        if name == "table":
            self.tables.append([])
        self.in_group |= name == "tr" and attributes.get("class") == "group"
        if self.in_group:
            self.groups += [""] * (name == "tr")
        elif name == "tr" and "svg" not in self.open:
            self.tables[-1].append([])
        elif name in ("td", "th"):
            self.tables[-1][-1].append(("", attributes.get("data-v")))

    def handle_startendtag(self, name: str, pairs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(name, pairs)
        if name not in VOID:
            self.handle_endtag(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name
        self.in_group &= name != "tr"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "script" not in self.open:
            self.words.append(data)
        if self.in_group:
            self.groups[-1] += data.strip()
        elif self.open and {"td", "th"} & set(self.open) and self.tables[-1]:
            row = self.tables[-1][-1]
            row[-1] = (row[-1][0] + data, row[-1][1])

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def change(record: FinishedRecord, **parts: dict[str, Any]) -> FinishedRecord:
    """The record with other fields in some of its parts: ``result={"chance": 0.5}``."""
    content = record.model_dump()
    for name, fields in parts.items():
        content[name] |= fields
    return FinishedRecord.model_validate(content)


def writer(folder: Path, make_record: Callable[..., FinishedRecord]) -> Callable[..., Path]:
    """A function that writes one record to ``folder`` and returns the folder."""

    def one(
        label: str,
        at_half: float,
        seed: int = 0,
        data: str = "alpha",
        processor: str = "A",
        noise: float = 0.0,
        timed: bool = True,
        cell: dict[str, Any] | None = None,
        **fields,
    ) -> Path:
        chance, base = 0.25, 0.9
        shares = np.array(REMOVED) / UNITS
        rng = np.random.default_rng([seed, len(label), len(data)])
        height = np.interp(shares, [0, 0.5, 1], [1, at_half / 100, 1 if at_half == 100 else 0])
        draws = 3 if label == "random" else 1
        shift = rng.normal(0, noise, (draws, len(REMOVED))) if noise else np.zeros((draws, len(REMOVED)))
        quality = np.clip(chance + (base - chance) * (height + shift), 0, 1)
        quality[:, 0] = base
        reports = {count: {"steps": 3, "open_at_0.01": 6, "open_at_0.1": 2 + seed % 2} for count in REMOVED if count}
        orders = [rng.permutation(UNITS).tolist() for _ in range(draws)]
        record = make_record(
            label=label, data=data, seed=seed, removed=REMOVED, chance=chance, quality=quality.tolist(),
            samples={count: [2.0 - count / 8, 2.1 - count / 8, 5.0] for count in REMOVED}, **fields,
        )  # fmt: skip
        trains, latency = bool(fields.get("trained")), record.measured.latency
        assert latency
        record = change(
            record.model_copy(update={"key": "0123456789abcdef"}),
            cell={"method": label.partition(":")[0], "source": "A & B 2020", "shape": "scorer"} | (cell or {}),
            provenance={"processor": processor, "system": "Linux", "python": "3.11"},
            result={
                "shape": [4, 4],
                "orders": None if record.result.kept or trains else orders,
                "kept": [sorted(range(UNITS - count)) for count in REMOVED] if trains else record.result.kept,
                "method_training": {
                    "passes": {"forward": 900, "backward": 900},
                    "reports": reports,
                    "traces": {4: {"steps": [1, 3], "loss": [1.5, 0.5], "right": [0.5, 0.75], "open": [8, 4 + seed]}},
                }
                if trains
                else None,
                "parameters": [{"model": 2**18 - 2**14 * count} for count in REMOVED],
            },
            measured={
                "latency": latency.model_dump() | {"dtype": "float32", "device": "cpu", "threads": 1, "length": {32: 9}}
                if timed
                else None
            },
        )
        name = f"classification.{data}.model/{slug(label)}/seed{seed}"
        Store(folder).write(name, record, {"outcomes": np.zeros((draws, len(REMOVED), 100), dtype=bool)})
        return folder

    return one


def runner(write: Callable[..., Path]) -> Callable[..., Path]:
    """A function that writes records of all METHODS, or those named."""

    def whole(
        seeds: int = 6,
        data: Sequence[str] = ("alpha", "beta"),
        labels: Sequence[str] = tuple(METHODS),
        timed: bool = True,
    ) -> Path:
        for label in labels:
            at_half, fields = METHODS[label]
            for task in data:
                for seed in range(seeds):
                    noise = 0.0 if label == "none" else 0.02
                    folder = write(label, at_half, seed, task, noise=noise, timed=timed, **fields)
        return folder

    return whole


@pytest.fixture
def write(tmp_path: Path, make_record) -> Callable[..., Path]:
    """Write one record; returns the folder of the run."""
    return writer(tmp_path / "run", make_record)


@pytest.fixture
def run(write) -> Callable[..., Path]:
    """Write records of all METHODS, or those named."""
    return runner(write)


@pytest.fixture(scope="package", autouse=True)
def fonts() -> Iterator[int]:
    """The type of fonts in PDF files; inside, another one, as most of the time of a report is spent on theirs."""
    with pytest.MonkeyPatch.context() as patch:
        found = STYLE["pdf.fonttype"]
        patch.setitem(STYLE, "pdf.fonttype", 3)
        yield found


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, make_record) -> tuple[Path, Path]:
    """A report of everything, to read only, and the folder of its run."""
    folder = runner(writer(tmp_path_factory.mktemp("made") / "run", make_record))()
    return report(folder, folder / "report").parent, folder


@pytest.fixture
def pages() -> Callable[[Path], Iterator[tuple[Path, Page]]]:
    """Every page below a folder, parsed."""
    return lambda folder: ((path, Page(path.read_text(encoding="utf-8"))) for path in sorted(folder.rglob("*.html")))


@pytest.fixture
def hostile() -> str:
    """A name that would run as a script if it were not escaped."""
    return HOSTILE


@pytest.fixture(scope="session")
def changed() -> Callable[..., FinishedRecord]:
    """A record with other fields in some of its parts: ``changed(record, result={"chance": 0.5})``."""
    return change


@pytest.fixture(scope="session")
def failed() -> Callable[[FinishedRecord, str], FailedRecord]:
    """The record of the same cell when it fails."""
    return lambda record, reason: FailedRecord(cell=record.cell, provenance=record.provenance, digest="", reason=reason)


@pytest.fixture(scope="session")
def board_of() -> Callable[[Sequence[Record]], Board]:
    """The board of records that are not on disk."""
    return lambda records: make_board({Path(str(place)): record for place, record in enumerate(records)})


@pytest.fixture
def parse() -> type[Page]:
    """Parse one page."""
    return Page
