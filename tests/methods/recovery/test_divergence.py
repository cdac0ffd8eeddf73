"""How far models of language are from the unpruned one, text by text, whatever the batches and their padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from methods import View
from methods.checks.tiny import SHARED, norm_in_float64
from methods.contract.choice import Choice
from methods.heads import HeadMap
from methods.recovery.recover import divergences, held_out_texts, recover
from tests.fixtures.slow import slow_cases
from tests.methods.translating import translating


def logits(model, batch):
    """As tasks give them: with zeros at padding."""
    return model(**batch.inputs).logits * batch.inputs["attention_mask"][..., None]


def language_model(tiny, seed):
    """Views of a random model: its texts each alone, in one batch, and in two padded on the left or on both sides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(LlamaConfig(**SHARED, num_key_value_heads=2, initializer_range=0.4))
    norm_in_float64(model)
    model = model.double().eval().requires_grad_(False)
    texts = tiny.sentences(seed, count=12, longest=14)
    batchings = {
        "one batch": [tiny.batch(texts)],
        "left": [tiny.batch(texts[:7], "left"), tiny.batch(texts[7:], "left", extra=9)],
        "both sides": [tiny.batch(texts[:3], extra=4), tiny.batch(texts[3:], "left")],
    }
    heads = HeadMap.of(model)
    alone = View(
        model=model,
        heads=heads,
        batches=tiny.alone(texts),
        kept=heads.full_mask(),
        generator=torch.Generator().manual_seed(seed),
        forward=logits,
        loss_of_logits=lambda logits, batch: logits.mean((1, 2)),
    )
    return alone, {name: replace(alone, batches=batches) for name, batches in batchings.items()}


def choice_of(view):
    mask = view.heads.full_mask()
    mask[::2] = False
    return Choice(view.model, view.heads, mask)


def slow(alone, model, texts):
    """Texts without padding, their tokens one by one."""
    found = []
    for text, batch in enumerate(alone.batches):
        if texts[text]:
            with torch.no_grad():
                wanted, given = (alone.forward(each, batch)[0].double().softmax(-1) for each in (alone.model, model))
            tokens = [float((p * (p / q).log()).sum()) for p, q in zip(wanted, given, strict=True)]
            found.append(sum(tokens) / len(tokens))
    return sum(found) / len(found)


@pytest.mark.parametrize("batching", ["one batch", "left", "both sides"])
@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_of_a_language_model_padding_counts_for_nothing(tiny, seed, batching):
    alone, views = language_model(tiny, seed)
    view, held_out = views[batching], held_out_texts(alone)
    models = [choice_of(view).smaller(), view.model]
    expected = [slow(alone, model, held_out) for model in models]
    assert expected[0] > 0.01 and expected[1] == 0
    assert divergences(view, models, held_out) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("how", ["scale", "lstsq"])
@pytest.mark.parametrize("seed", range(4))
def test_the_verdict_is_that_of_texts_alone(tiny, how, seed):
    alone, views = language_model(tiny, seed)
    choice = choice_of(alone)
    free = recover(alone, choice, how, guarded=False).choice.smaller()
    nearer = slow(alone, free, held_out_texts(alone)) < slow(alone, choice.smaller(), held_out_texts(alone))
    assert {(recover(view, choice, how).recovered > 0) == nearer for view in views.values()} == {True}


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_of_a_translation_the_tokens_of_the_target_count(family):
    view, pairs = translating(family, 0)
    texts = torch.ones(len(pairs), dtype=torch.bool)
    smaller = choice_of(view).smaller()
    expected = slow(replace(view, batches=pairs), smaller, texts)
    assert divergences(view, [smaller], texts) == pytest.approx([expected], rel=1e-4)
