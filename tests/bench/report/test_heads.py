"""The pages of heads: maps and numbers of kept heads at every level, of layers of any size."""

from __future__ import annotations

import base64
import csv
import io
import posixpath
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bench.report.figures.heads.layers import layers_by_kind
from bench.report.figures.heads.maps import FAINTEST, STEPS, bitmap, size
from bench.report.kept import heads_kept, kept
from bench.report.pages.heads import heads_page

FILE = "heads/classification.alpha.model.html"
SHARES = st.lists(st.lists(st.floats(0, 1), min_size=0, max_size=9), min_size=1, max_size=6).filter(any)


def opacities(png: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(png)).convert("RGBA"))[..., 3].astype(float)


@given(SHARES)
def test_a_map_is_the_less_transparent_the_larger_the_share_and_blank_where_there_is_no_head(layers):
    found = opacities(bitmap([np.array(layer) for layer in layers]))
    assert found.shape == (len(layers), max(map(len, layers)))
    for row, layer in zip(found, layers, strict=True):
        expected = FAINTEST + (255 - FAINTEST) * np.array(layer)
        np.testing.assert_allclose(row[: len(layer)], expected, atol=1 + (255 - FAINTEST) / (STEPS - 1) / 2)
        assert not row[len(layer) :].any()


def test_maps_of_many_heads_stay_small():
    assert size([np.ones(12)] * 6) == (120, 60)
    wide, high = size([np.ones(64)] * 80)
    assert wide <= 200 and high <= 240


@pytest.fixture
def uneven(make_record, board_of):
    """Layers of 3, 0, 4 and 1 heads; a score with an order for each of two draws, and a trained method with masks."""
    rng = np.random.default_rng(0)
    removed, shape = (0, 2, 5, 8), [3, 0, 4, 1]
    records = []
    for seed in range(3):
        orders = [rng.permutation(8).tolist() for _ in range(2)]
        masks = [sorted(rng.choice(8, 8 - count, replace=False).tolist()) for count in removed]
        records += [
            make_record(seed=seed, label="scored", removed=removed, quality=[[0.9, 0.8, 0.7, 0.5]] * 2, data="alpha",
                        result={"shape": shape, "orders": orders}),
            make_record(seed=seed, label="random", removed=removed, quality=[[0.9, 0.8, 0.7, 0.5]] * 2, data="alpha",
                        result={"shape": shape, "orders": orders}, control=True),
            make_record(seed=seed, label="both", removed=removed, quality=[[0.9, 0.8, 0.7, 0.5]], data="alpha",
                        neurons=True, result={"shape": shape, "orders": None, "kept": masks}),
            make_record(seed=seed, label="joint", removed=removed, quality=[[0.9, 0.8, 0.7, 0.5]], data="alpha",
                        trained=0.1, result={"shape": shape, "orders": None, "kept": masks}),
        ]  # fmt: skip
    return board_of(records)


def test_heads_kept_are_counted_in_layers_of_any_size(uneven):
    found = kept(uneven, uneven.tasks[0])
    assert found is not None and found.shape == (3, 0, 4, 1) and found.removed == (2, 5, 8)
    starts = np.cumsum([0, *found.shape])
    for removed in found.removed:
        for label in ("scored", "joint"):
            counts = []
            for record in uneven.of(uneven.tasks[0], label):
                level = record.result.removed.index(removed)
                masks = [order[removed:] for order in record.result.orders or ()] or [record.result.kept[level]]
                counts += [[sum(a <= unit < b for unit in mask) for a, b in pairwise(starts)]
                           for mask in masks]  # fmt: skip
            np.testing.assert_allclose(heads_kept(found.shares[label][removed]), np.mean(counts, axis=0))
        of_kinds = found.by_kind(removed)
        assert list(of_kinds) == ["score", "trained"]  # neither controls nor what removes neurons too
        np.testing.assert_allclose(of_kinds["score"], heads_kept(found.shares["scored"][removed]))


def test_a_page_has_a_map_and_numbers_of_every_method_at_every_level(uneven, parse):
    files = heads_page(uneven, uneven.tasks[0])
    found = kept(uneven, uneven.tasks[0])
    assert found is not None
    page, text = parse(files[FILE].decode()), files[FILE].decode()
    maps = re.findall(r'<img src="data:image/png;base64,([^"]+)"[^>]*alt="Heads that (\w+) keeps', text)
    assert [label for _, label in maps] == [
        "both",
        "scored",
        "random",
        "joint",
    ] * 3  # controls after methods of their kind
    for place, (content, label) in enumerate(maps):
        assert base64.b64decode(content) == bitmap(found.shares[label][found.removed[place // 4]])
    for removed, table in zip(found.removed, page.tables, strict=False):
        for label, row in ((row[0][0], row) for row in table[1:]):
            *shown, in_all = [float(value) for value, _ in row[1:]]
            np.testing.assert_allclose(shown, heads_kept(found.shares[label][removed]), atol=0.051)
            np.testing.assert_allclose(in_all, 8 - removed, atol=0.051)
    rows = list(csv.DictReader(io.StringIO(files["tables/heads-classification.alpha.model.csv"].decode())))
    assert len(rows) == 4 * 3 * 4
    for row in rows:
        shares = found.shares[row["method"]][int(row["removed"])][int(row["layer"])]
        got = [float(row[f"head{head}"]) for head in range(4) if row[f"head{head}"]]
        np.testing.assert_allclose(got, shares, atol=1e-6)
        assert float(row["kept"]) == pytest.approx(8 - int(row["removed"]))
    last = page.tables[-1]
    assert [row[1][0] for row in last[1:]] == ["score", "trained"] * 3


def test_heads_kept_are_named_where_a_level_is_no_number_of_heads(make_record, board_of):
    quality, removed = [[0.9, 0.8, 0.5]], (0, 4, 8)
    masks = [list(range(8)), [0, 1, 2, 3, 4, 5], []]
    board = board_of([
        make_record(label="scored", removed=removed, quality=quality, data="alpha", result={"shape": [4, 4]}),
        make_record(label="both", removed=removed, quality=quality, data="alpha", neurons=True,
                    result={"shape": [4, 4], "orders": None, "kept": masks}),
    ])  # fmt: skip
    files = heads_page(board, board.tasks[0])
    text = files[FILE].decode()
    names = re.findall("<figcaption>([^<]+)</figcaption>", text)
    assert [name for name in names if "," in name] == ["both, 6 of 8 heads kept", "both, 0 of 8 heads kept"]
    assert "Methods that remove neurons count them" in text
    rows = csv.DictReader(io.StringIO(files["tables/heads-classification.alpha.model.csv"].decode()))
    assert {(row["method"], row["removed"], float(row["kept"])) for row in rows} == {
        ("scored", "4", 4), ("scored", "8", 0), ("both", "4", 6), ("both", "8", 0)
    }  # fmt: skip


@pytest.fixture
def encoder_decoder(make_record, board_of):
    """A model with two layers of an encoder, and two of a decoder with cross-attention, as its modules stand."""
    shape, attention = [2, 3, 2, 1, 3, 4], ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    order = np.random.default_rng(0).permutation(15).tolist()
    result = {"shape": shape, "attention": attention, "orders": [order]}
    records = [
        make_record(label=label, control=label == "random", removed=(0, 6, 15), quality=[[0.9, 0.8, 0.5]], data="alpha",
                    result=result)
        for label in ("scored", "random")
    ]  # fmt: skip
    return board_of(records), order


def test_kinds_of_attention_are_shown_apart(encoder_decoder, parse):
    board, order = encoder_decoder
    files, found = heads_page(board, board.tasks[0]), kept(board, board.tasks[0])
    assert found is not None and found.shape == (2, 3, 2, 3, 1, 4)
    units = np.zeros(15)
    units[order[6:]] = 1
    by_module = np.split(units, np.cumsum([2, 3, 2, 1, 3, 4])[:-1])
    expected = {"encoder": by_module[:2], "decoder": by_module[2::2], "cross": by_module[3::2]}
    text = files[FILE].decode()
    for kind, layers in expected.items():
        (image, *_) = re.findall(rf'base64,([^"]+)"[^>]*alt="Heads that scored keeps in {kind} attention', text)
        assert base64.b64decode(image) == bitmap(layers)
    (table, *_) = parse(text).tables
    names = [f"{kind} {layer}" for kind in expected for layer in range(2)]
    assert [name for name, _ in table[0][1:]] == [*names, "in all"]
    numbers = [layer.sum() for layers in expected.values() for layer in layers]
    assert [float(value) for value, _ in table[1][1:]] == [*numbers, sum(numbers)]
    rows = list(csv.DictReader(io.StringIO(files["tables/heads-classification.alpha.model.csv"].decode())))
    assert [(row["attention"], row["layer"]) for row in rows[:6]] == [tuple(name.split()) for name in names]


def test_lines_of_kinds_of_attention_do_not_touch(encoder_decoder):
    board, _ = encoder_decoder
    found = kept(board, board.tasks[0])
    assert found is not None
    axis = layers_by_kind(found, [6], "title", "random").axes[0]
    dotted = [line.get_xdata().tolist() for line in axis.lines if line.get_linestyle() == ":"]
    assert dotted == [[0, 1], [3, 4], [6, 7]]
    assert [text.get_text() for text in axis.texts] == ["encoder", "decoder", "cross"]


@pytest.fixture
def thirty(make_record, board_of):
    """Two methods measured after each of 30 removals, in layers of 5 heads."""
    rng, removed = np.random.default_rng(1), tuple(range(31))
    quality = [[0.9 - count / 100 for count in removed]]
    records = [
        make_record(seed=seed, label=label, removed=removed, quality=quality, data="alpha", control=label == "random",
                    result={"shape": [5] * 6, "orders": [rng.permutation(30).tolist()]})
        for label in ("scored", "random") for seed in range(2)
    ]  # fmt: skip
    return board_of(records)


def levels_in(page: str) -> list[tuple[int, list[tuple[str, bytes]]]]:
    """The numbers of heads removed that a page offers, each with its maps and the methods that they are of."""
    parts = re.split(r'<section data-group="Heads removed" data-option="(\d+) of 30 ', page)
    image = r'base64,([^"]+)"[^>]*alt="Heads that (\w+) keeps'
    return [
        (int(count), [(label, base64.b64decode(png)) for png, label in re.findall(image, part)])
        for count, part in zip(parts[1::2], parts[2::2], strict=True)
    ]


def test_every_recorded_level_has_its_maps_on_one_of_several_pages(thirty, parse, undrawn):
    files, found = heads_page(thirty, thirty.tasks[0]), kept(thirty, thirty.tasks[0])
    assert found is not None and found.removed == tuple(range(1, 31))
    first, further = files.pop(FILE).decode(), [name for name in files if name.endswith(".html")]
    assert [link for link in parse(first).links if "levels" in link] == [f"../{name}" for name in further]
    pages = {name: files[name].decode() for name in further}
    assert [count for page in pages.values() for count, _ in levels_in(page)] == list(found.removed)
    for page in (first, *pages.values()):
        assert 0 < len(levels_in(page)) <= 12
        for count, maps in levels_in(page):
            assert maps == [(label, bitmap(found.shares[label][count])) for label in ("scored", "random")]
    for name, page in pages.items():
        assert len(page) <= len(first)
        for link in parse(page).links:
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.partition("#")[0]))
            assert place in {FILE, *further, *files} or re.match(r"(index|budgets|records|methods/\w+)\.html", place)


def test_few_levels_are_all_on_one_page(uneven, undrawn):
    files = heads_page(uneven, uneven.tasks[0])
    assert [name for name in files if name.endswith(".html")] == [FILE] and b"heads/levels" not in files[FILE]


def test_records_that_do_not_say_where_units_are_have_no_page(make_record, board_of):
    board = board_of([make_record()])
    assert heads_page(board, board.tasks[0]) == {}
