"""The built-in data: sound splits, the same each time, and little for shallow models to go by."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tasks.builtin import inference, languages, sentiment
from tasks.builtin.model import build
from tasks.data.dataset import SPLITS
from tasks.data.encode import encode
from tasks.models.train import predict
from tests.fixtures.slow import slow_cases

MODULES = {module.__name__.split(".")[-1]: module for module in (sentiment, inference, languages)}
every = pytest.mark.parametrize("name", ["inference", *slow_cases("sentiment", "languages")])


@cache
def dataset(name):
    return MODULES[name].dataset()


@every
def test_no_text_is_in_two_splits(name):
    texts = {split: {example.texts for example in getattr(dataset(name), split)} for split in SPLITS}
    assert not texts["test"] & (texts["train"] | texts["validation"])
    assert not texts["validation"] & texts["train"]
    assert len(texts["test"]) == len(dataset(name).test)  # nor twice in test


@pytest.mark.slow
def test_no_name_is_in_two_splits():
    data = dataset("languages")
    names = {
        split: {name for example in getattr(data, split) for name in example.texts[0].split(" , ")} for split in SPLITS
    }
    assert not names["test"] & (names["train"] | names["validation"])
    assert not names["validation"] & names["train"]


@every
def test_is_full_balanced_and_the_same_each_time(name):
    data = dataset(name)
    assert MODULES[name].dataset().fingerprint == data.fingerprint
    for split in SPLITS:
        examples = getattr(data, split)
        assert len(examples) == MODULES[name].SIZES[split]
        counts = Counter(example.label for example in examples)
        assert set(counts) == set(range(len(data.labels)))
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(
    ("name", "ngrams", "only_last", "most"),
    [
        *slow_cases(("sentiment", (1, 1), False, 0.40), ("sentiment", (1, 2), False, 0.45)),
        ("inference", (1, 1), False, 0.47),
        *slow_cases(("inference", (1, 2), False, 0.62), ("inference", (1, 2), True, 0.45)),
    ],
)
@pytest.mark.parametrize("binary", [False, *slow_cases(True)])
def test_shallow_models_fail(name, ngrams, only_last, most, binary):
    data = dataset(name)

    def fit_and_score(join):
        vectorizer = CountVectorizer(ngram_range=ngrams, binary=binary, tokenizer=str.split, token_pattern=None)
        model = LogisticRegression(max_iter=1000)
        model.fit(vectorizer.fit_transform(map(join, data.train)), [example.label for example in data.train])
        return model.score(vectorizer.transform(map(join, data.test)), [example.label for example in data.test])

    def together(example):
        return " | ".join(example.texts[-1:] if only_last else example.texts)

    assert fit_and_score(together) <= most


def test_labels_of_quantified_pairs_follow_from_logic():
    settings = inference.patterns_by_label()
    assert ("every", "every", True) in settings[inference.ENTAILMENT]  # every bird is old: every owl is old
    assert ("every", "every", False) in settings[inference.NEUTRAL]
    assert ("some", "some", False) in settings[inference.ENTAILMENT]  # some owl is old: some bird is old
    assert ("no", "some", True) in settings[inference.CONTRADICTION]
    assert ("every", "some", True) in settings[inference.ENTAILMENT]  # groups are not empty
    assert sum(map(len, settings.values())) == 4 * 4 * 2


@every
def test_tokenizer_knows_the_test_words_and_cuts_few_texts(name):
    data, module = dataset(name), MODULES[name]
    length = module.RECIPE.max_length
    tokenizer, _ = build(data, 0, pieces=getattr(module, "PIECES", None), max_length=length)
    ids = [example.tokens["input_ids"] for example in encode(data.test, tokenizer, length)]
    unknown = sum(row.count(tokenizer.unk_token_id) for row in ids) / sum(map(len, ids))
    assert unknown <= (0.02 if name == "languages" else 0)
    assert sum(len(row) == length for row in ids) <= len(ids) / 8  # some languages are long


def test_model_is_drawn_from_its_seed_alone():
    data = dataset("inference")
    state = torch.random.get_rng_state()
    _, first = build(data, 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    _, again = build(data, 1)
    _, other = build(data, 2)
    weights = [model.bert.encoder.layer[0].attention.self.query.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.config.id2label == dict(enumerate(data.labels))


@every
def test_tokenizer_and_model_survive_saving(name, tmp_path):
    data = dataset(name)
    tokenizer, model = build(data, 0, pieces=getattr(MODULES[name], "PIECES", None))
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    some = data.test[:50]
    first = encode(some, tokenizer, 64)
    assert encode(some, AutoTokenizer.from_pretrained(tmp_path), 64) == first
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(predict(reloaded, tokenizer, first), predict(model, tokenizer, first))
    assert reloaded.config.label2id == {label: place for place, label in enumerate(data.labels)}
