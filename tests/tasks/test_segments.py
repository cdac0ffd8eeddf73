"""Perplexity in segments, against one token after another."""

from __future__ import annotations

import math

import pytest
import torch

from tasks.builtin import abilities, decoder
from tasks.data import readers
from tasks.errors import TaskError
from tasks.harness.data import local
from tasks.harness.run import Harness
from tasks.harness.segments import LONGEST, joined, segment_perplexity, segments_of

ROWS = ["", " = A title = \n", "", " The first line . \n", " The second . \n", ""]  # as the hub has them
ROWS += [" = Another = \n", "", " The last line . \n", ""]


@pytest.fixture(scope="module")
def language_model():
    return decoder.build(abilities.documents()["train"], 0)


def test_lines_are_joined_as_rows_of_the_data_set_are(tmp_path):
    raw = "".join(row or " \n" for row in ROWS)
    file = tmp_path / "wiki.test.raw.txt"
    file.write_text(raw)
    of_file = [row["page"] for row in local(str(file), "wikitext")["test"]]
    lines = raw.split("\n")
    of_hub = ["\n".join(lines[1:6]), "\n".join(lines[6:])]  # whose documents are lines with line ends between them
    assert len(of_file) == 2
    assert joined(of_file) == joined(of_hub) == "\n\n".join(ROWS)


def test_files_that_are_no_text_or_too_long_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "wiki.test.txt"
    file.write_bytes(b" = A title = \n\xff")
    with pytest.raises(TaskError, match="line 2: not UTF-8 text: invalid start byte; save it as UTF-8"):
        local(str(file), "wikitext")
    file.write_text(" = A title = \n")
    monkeypatch.setattr(readers, "ARRAY", 10)
    with pytest.raises(TaskError, match="more than 10 characters in one text"):
        local(str(file), "wikitext")


@pytest.mark.parametrize("positions", [7, 64, 10_000])
def test_segments_are_whole_and_disjoint(language_model, positions):
    tokenizer, _ = language_model
    text = " ".join(document.statement for document in abilities.documents()["test"])
    ids = tokenizer(text)["input_ids"]
    found = segments_of(text, tokenizer, positions)
    length = min(LONGEST, positions)
    assert found.shape == (len(ids) // length, length)
    assert found.flatten().tolist() == ids[: len(ids) // length * length]
    assert segments_of("a", tokenizer, positions).shape == (0, length)


@pytest.mark.parametrize("batch_size", [1, 4])
@torch.no_grad()
def test_perplexity_is_that_of_each_token_after_those_before_it_in_its_segment(language_model, batch_size):
    _, model = language_model
    generator = torch.Generator().manual_seed(0)
    segments = torch.randint(3, model.config.vocab_size, (6, 9), generator=generator)
    total, count = 0.0, 0
    for segment in segments:
        for place in range(1, len(segment)):
            logits = model(input_ids=segment[None, :place]).logits[0, -1].double()
            total -= float(logits.log_softmax(-1)[segment[place]])
            count += 1
    assert segment_perplexity(model, segments, batch_size) == pytest.approx(math.exp(total / count), rel=1e-5)


def test_logits_that_are_not_finite_are_no_perplexity(language_model):
    _, model = language_model
    weight = model.lm_head.weight
    kept = weight.detach().clone()
    try:
        weight.data[5] = math.inf
        with pytest.raises(FloatingPointError):
            segment_perplexity(model, torch.full((1, 4), 7), 1)
    finally:
        weight.data.copy_(kept)


def test_wikitext_has_both_perplexities(language_model, tmp_path):
    tokenizer, model = language_model
    pages = [f" = Title {n} = \n \n {' '.join(['word'] * 900)} . \n" for n in range(3)]
    (tmp_path / "wikitext").mkdir()
    (tmp_path / "wikitext" / "wiki.test.txt").write_text("".join(pages))
    found = Harness(["wikitext"], mirror=str(tmp_path))(model, tokenizer)["wikitext"].metrics
    positions = min(LONGEST, model.config.max_position_embeddings)
    segments = segments_of(joined(pages), tokenizer, positions)
    assert found[f"perplexity_{positions}"] == pytest.approx(segment_perplexity(model, segments), rel=1e-6)
    assert found["word_perplexity"] > 0
