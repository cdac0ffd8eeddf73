"""Batches hold what the tokenizer gave, whatever the order, the length and the padding side."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tasks.builtin.model import build
from tasks.data import encode as module
from tasks.data.dataset import Dataset, Example
from tasks.data.encode import Encoded, batches, encode, median_length, padding_id

WORDS = ("a", "b", "c", "d")
ALL = Example((" ".join(WORDS),), 0)
TOKENIZER, _ = build(Dataset("words", ("x", "y"), (ALL,), (ALL,), (ALL,)), 0)

text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
single = st.tuples(text)
pair = st.tuples(text, text)
examples = st.one_of(
    st.lists(st.builds(Example, single, st.integers(0, 1)), min_size=1, max_size=20),
    st.lists(st.builds(Example, pair, st.integers(0, 1)), min_size=1, max_size=20),
)


@given(examples, st.integers(1, 7), st.booleans(), st.sampled_from(["left", "right"]), st.integers(4, 16))
def test_batches_cover_every_example_once_and_as_tokenized(rows, size, by_length, side, max_length):
    encoded = encode(rows, TOKENIZER, max_length)
    TOKENIZER.padding_side = side
    try:
        found = list(batches(encoded, TOKENIZER, size, by_length=by_length))
    finally:
        TOKENIZER.padding_side = "right"
    order = torch.cat([batch.indices for batch in found])
    assert sorted(order.tolist()) == list(range(len(rows)))
    if not by_length:
        assert order.tolist() == sorted(order.tolist())
    for batch in found:
        lengths = batch.inputs["attention_mask"].sum(1)
        assert batch.inputs["input_ids"].shape[1] == lengths.max() <= max_length
        for place, index in enumerate(batch.indices.tolist()):
            alone = TOKENIZER(*rows[index].texts, truncation=True, max_length=max_length)
            real = batch.inputs["attention_mask"][place].bool()
            for name, values in batch.inputs.items():
                assert values[place][real].tolist() == alone[name]
            assert set(batch.inputs["input_ids"][place][~real].tolist()) <= {TOKENIZER.pad_token_id}
            assert batch.labels[place] == rows[index].label


@given(examples, st.integers(1, 7))
def test_by_length_goes_from_the_longest_to_the_shortest(rows, size):
    encoded = encode(rows, TOKENIZER, 32)
    found = batches(encoded, TOKENIZER, size, by_length=True)
    lengths = [int(length) for batch in found for length in batch.inputs["attention_mask"].sum(1)]
    assert lengths == sorted(lengths, reverse=True)


def test_many_examples_keep_their_order(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 3)
    rows = [Example((word,), place % 2) for place, word in enumerate("abcdabcdab")]
    whole = [TOKENIZER(*row.texts)["input_ids"] for row in rows]
    assert [row.tokens["input_ids"] for row in encode(rows, TOKENIZER, 8)] == whole


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 20))
def test_examples_of_median_length_are_from_the_middle_and_as_many_as_asked_for(lengths, size):
    encoded = [Encoded({"input_ids": [0] * length}, 0) for length in lengths]
    found = [len(each.tokens["input_ids"]) for each in median_length(encoded, size)]
    ordered = sorted(lengths)
    left = (len(ordered) - size) // 2
    assert len(found) == size
    assert found == ordered[left : left + size] if size <= len(ordered) else {*found} == {*lengths}


def test_no_examples_give_no_batches():
    assert encode([], TOKENIZER, 8) == []
    assert list(batches([], TOKENIZER, 4)) == []


@pytest.mark.parametrize("texts", [[("a",), ("a", "b")], [("a", "b", "c")]])
def test_mixed_or_more_than_two_texts_are_refused(texts):
    with pytest.raises(ValueError, match="one text or all hold two"):
        encode([Example(row, 0) for row in texts], TOKENIZER, 8)


def test_padding_falls_back_on_the_end_of_sequence_and_else_says_so():
    words = Tokenizer(models.WordLevel({"<end>": 0, "a": 1}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    decoder = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>")
    assert padding_id(decoder) == 0
    batch = next(batches(encode([Example(("a a",), 0), Example(("a",), 1)], decoder, 8), decoder, 2))
    assert batch.inputs["input_ids"].tolist() == [[1, 1], [1, 0]]
    assert batch.inputs["attention_mask"].tolist() == [[1, 1], [1, 0]]
    with pytest.raises(ValueError, match="no pad_token and no eos_token"):
        padding_id(PreTrainedTokenizerFast(tokenizer_object=words))
