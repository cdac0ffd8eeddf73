"""The study of speed: its arithmetic against models that run, and the page against what was measured."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import nn

from methods.heads import HeadMap
from tests.docs.documents import ROOT
from tests.fixtures.slow import slow_cases

STUDIES = ROOT / "docs" / "studies"
NAMES = ("studied", "shapes", "speed_page")


@pytest.fixture
def study(monkeypatch):
    """The modules beside the study, by name."""
    monkeypatch.syspath_prepend(str(STUDIES))
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("removed", [*slow_cases(0.0), 0.5])
@torch.no_grad()
def test_operations_and_cache_are_those_of_a_model_that_runs(study, removed):
    shapes = study["shapes"]
    shape = shapes.SHAPES["llama-grouped"]
    model = shapes.pruned(shape.model(2), removed, "even")
    tokens, before = 1, shapes.CACHED
    linear = sum(each.weight.numel() for each in model.modules() if isinstance(each, nn.Linear))
    heads = sum(site.num_heads * site.head_dim for site in HeadMap.of(model).sites)
    expected = 2 * tokens * linear + 2 * 2 * tokens * (before + tokens) * heads
    operations, weights, cached = shapes.arithmetic(shape, shapes.DECODE, model)
    assert operations == expected
    norms = sum(each.weight.nbytes for name, each in model.named_modules() if name.endswith("norm"))
    cache = model(torch.full((1, 9), 3), use_cache=True).past_key_values
    assert shapes.cache_bytes(model, 9, 4) == sum(each.keys.nbytes + each.values.nbytes for each in cache.layers)
    given = shapes.DECODE.inputs(model, 1)
    assert cached == sum(each.nbytes for name, each in given.items() if "past" in name)
    assert shapes.cache_bytes(model, before, 4) == cached and weights == 4 * linear + norms


@pytest.mark.slow
def test_heads_go_evenly_or_more_from_each_module_than_from_the_one_below(study):
    shapes = study["shapes"]
    for name, counts in (("bert", (12, 8, 4, 0)), ("llama-grouped", (8, 0)), ("t5", (12, 0, 12, 12, 0, 0))):
        shape = shapes.SHAPES[name]
        even, uneven = (shapes.pruned(shape.model(shape.layers), 0.5, spread) for spread in ("even", "uneven"))
        assert HeadMap.of(uneven).shape == counts
        assert len(set(HeadMap.of(even).shape)) == 1 and len(HeadMap.of(even)) == sum(counts)


def test_the_page_has_the_tables_of_what_was_measured(study):
    page = study["speed_page"]
    text = page.PAGE.read_text(encoding="utf-8")
    for name, table in page.tables(study["studied"].lines(STUDIES / "speedup.csv")).items():
        assert f"<!-- {name} -->\n{table}<!-- end of {name} -->" in text
