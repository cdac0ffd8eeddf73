"""The built-in pairs: sound splits, the same each time, and nothing that a dictionary can do."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from methods.heads import HeadMap, remove_heads
from tasks.builtin import renderings, translator
from tasks.data.dataset import SPLITS
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tasks.translating.scores import outcomes
from tasks.translation import Translation

pytestmark = pytest.mark.slow  # what they are of is made by code that hardly ever changes
SHORT = 34  # characters of a source; such a text is rarely a list


@pytest.fixture(scope="module")
def data():
    return renderings.dataset()


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def test_is_full_and_the_same_each_time(data):
    assert {split: len(getattr(data, split)) for split in SPLITS} == renderings.SIZES
    fingerprint = data.fingerprint
    for function in (renderings.dataset, renderings.renderings):
        function.cache_clear()
    assert renderings.dataset().fingerprint == fingerprint


def test_nothing_is_rendered_in_two_splits():
    seen: set[str] = set()
    for split, pool in renderings.renderings().items():
        sources = {source for source, _ in pool}
        assert len(sources) == len(pool) == renderings.RENDERED[split]
        assert not sources & seen
        seen |= sources


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (r"\w+day, \w+ \d+, \d{4}", r"\d{4}\. \w+ \d+\., \w+"),
        (r"[1-9]+:\d\d PM", r"(1[2-9]|2\d):\d\d"),
        (r"in \d+ minutes", r"\d+ perc múlva"),
        (r"\d+ years ago", r"\d+ évvel ezelőtt"),
        (r"\d+\.\d\d US dollars", r"\d+,\d\d USA-dollár"),
    ],
)
def test_words_change_places(source, target):
    found = [pair for pair in renderings.renderings()["train"] if re.fullmatch(source, pair[0])]
    assert found and all(re.fullmatch(target, pair[1]) for pair in found)


def test_a_dictionary_of_words_is_far_below(data):
    together: Counter[tuple[str, str]] = Counter()
    alone: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for example in data.train:
        sides = [set(words(text)) for text in example.texts]
        together.update((one, other) for one in sides[0] for other in sides[1])
        for counter, side in zip(alone, sides, strict=True):
            counter.update(side)
    best: dict[str, tuple[float, str]] = {}
    for (one, other), count in together.items():
        best[one] = max(best.get(one, (0.0, "")), (2 * count / (alone[0][one] + alone[1][other]), other))
    translations = [
        " ".join(best.get(word, (0.0, word))[1] for word in words(example.texts[0])) for example in data.test
    ]
    assert outcomes("dictionary", translations, data.test, {}).quality < 0.4


def test_the_tokenizer_knows_all_of_it_and_writes_what_it_reads(data):
    tokenizer, _ = translator.build(data, 0)
    for example in data.test:
        for text in example.texts:
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids and len(ids) < translator.POSITIONS
            assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_single_things_are_soon_translated_but_not_without_cross_attention(tmp_path, monkeypatch, data):
    recipe = replace(translator.RECIPE, learning_rate=5e-3, max_steps=200, warmup_steps=20, evaluate_every=200)
    monkeypatch.setattr(translator, "RECIPE", recipe)
    task, cpu = Translation(TaskSpec(task="translation")), torch.device("cpu")
    short = {
        split: [example for example in getattr(data, split) if len(example.texts[0]) < SHORT][:6000] for split in SPLITS
    }
    task.dataset = replace(data, **{split: tuple(examples) for split, examples in short.items()})
    task.prepare(0, Cache(tmp_path), cpu)
    model = task.open(0, Cache(tmp_path), cpu)
    heads = HeadMap.of(model)
    cross = torch.tensor([heads.sites[unit.site].kind == "cross" for unit in heads.units])
    assert task.evaluate(model).quality > 0.5
    assert task.evaluate(remove_heads(model, ~cross, heads)).quality < 0.05


@pytest.mark.parametrize("seed", [0, 9])
def test_the_small_model_translates_what_it_has_not_seen_and_not_without_cross_attention(seed, tmp_path):
    """With the recipe and the data as they are, about a minute of one processor for each seed."""
    task, cpu = Translation(TaskSpec(task="translation")), torch.device("cpu")
    task.prepare(seed, Cache(tmp_path), cpu)
    model = task.open(seed, Cache(tmp_path), cpu)
    heads = HeadMap.of(model)
    cross = torch.tensor([heads.sites[unit.site].kind == "cross" for unit in heads.units])
    assert task.evaluate(model).quality >= 0.8
    assert task.evaluate(remove_heads(model, ~cross, heads)).quality < 0.05
