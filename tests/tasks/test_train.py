"""The training loop: learns, stops, keeps the best, repeats itself, and says when it diverges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import BertForSequenceClassification

from tasks.builtin.model import build
from tasks.data.dataset import Dataset, Example
from tasks.data.encode import encode
from tasks.models.train import Recipe, TrainingSetup, fine_tuning, predict, train
from tasks.seeds import Seeds

WORDS = "abcdefgh"
ROWS = tuple(Example((f"{first} {second}",), int(first in "abcd")) for first in WORDS for second in WORDS)
DATA = Dataset("first-word", ("late", "early"), ROWS, ROWS[::3], ROWS[::5])
SEEDS = Seeds("task", "data", "model", 0)
RECIPE = Recipe(learning_rate=1e-3, max_steps=12, batch_size=24, warmup_steps=2, max_length=8, evaluate_every=4)


def trained(recipe=RECIPE, seed=0, dropout=0.0, data=DATA, **options):
    tokenizer, model = build(data, 0, max_length=8)
    if dropout:
        model.config.hidden_dropout_prob = dropout
        weights = model.state_dict()
        model = BertForSequenceClassification(model.config)
        model.load_state_dict(weights)
    report = train(model, tokenizer, data, recipe, SEEDS._replace(seed=seed), **options)
    return model, tokenizer, report


def accuracy(model, tokenizer, examples):
    truth = torch.tensor([example.label for example in examples])
    return (predict(model, tokenizer, encode(examples, tokenizer, 8)) == truth).double().mean().item()


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_learns_and_stops_at_its_target():
    model, tokenizer, report = trained(replace(RECIPE, max_steps=200, target=0.95))
    assert report["target_met"] is True
    assert report["steps"] < 200
    assert report["best_step"] == report["steps"]
    assert report["validation_accuracy"] >= 0.95
    assert accuracy(model, tokenizer, DATA.validation) == report["validation_accuracy"]
    assert not model.training


def test_a_missed_target_is_reported():
    _, _, report = trained(replace(RECIPE, max_steps=3, learning_rate=1e-9, target=1.0))
    assert report["target_met"] is False
    assert report["target"] == 1.0
    assert report["steps"] == 3


def test_keeps_the_best_weights_not_the_last():
    seen = []
    recipe = replace(RECIPE, learning_rate=0.03, max_steps=40, evaluate_every=1)  # too fast: accuracy goes up and down
    model, tokenizer, report = trained(recipe, progress=lambda *now: seen.append(now))
    assert [step for step, _, _ in seen] == list(range(1, 41))
    assert {total for _, total, _ in seen} == {40}
    best = max(accuracy for _, _, accuracy in seen)
    assert report["validation_accuracy"] == best
    assert report["best_step"] == next(step for step, _, accuracy in seen if accuracy == best)
    assert accuracy(model, tokenizer, DATA.validation) == best


def test_last_step_is_evaluated_and_examples_are_counted():
    seen = []
    _, _, report = trained(replace(RECIPE, max_steps=10), progress=lambda step, total, accuracy: seen.append(step))
    assert seen == [4, 8, 10]
    assert report["examples"] == 24 + 24 + 16 + 24 + 24 + 16 + 24 + 24 + 16 + 24  # 64 examples an epoch
    assert report["target"] is report["target_met"] is None


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_same_seed_same_weights_whatever_was_drawn_before(dropout):
    first, _, _ = trained(dropout=dropout)
    torch.rand(5)
    state = torch.random.get_rng_state()
    again, _, _ = trained(dropout=dropout, seed=0)
    other, _, _ = trained(dropout=dropout, seed=1)
    assert same(first, again)
    assert not same(first, other)
    if not dropout:
        assert torch.equal(torch.random.get_rng_state(), state)


def test_global_random_state_is_restored_with_dropout():
    tokenizer, model = build(DATA, 0, max_length=8)
    model.config.hidden_dropout_prob = 0.3
    model = BertForSequenceClassification(model.config)
    state = torch.random.get_rng_state()
    train(model, tokenizer, DATA, RECIPE, SEEDS)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_frozen_parameters_stay():
    tokenizer, model = build(DATA, 0, max_length=8)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    before = model.bert.embeddings.word_embeddings.weight.clone()
    train(model, tokenizer, DATA, RECIPE, SEEDS)
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, before)


def test_divergence_is_one_clear_line():
    tokenizer, model = build(DATA, 0, max_length=8)
    with torch.no_grad():
        model.classifier.bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match=r"^loss is nan at step 1 of 12 on first-word, seed 0$") as caught:
        train(model, tokenizer, DATA, RECIPE, SEEDS)
    assert "\n" not in str(caught.value)


def test_fine_tuning_is_counted_in_epochs():
    recipe = fine_tuning(100, epochs=3, batch_size=32)
    assert recipe.max_steps == 12
    assert recipe.evaluate_every == 2
    assert recipe.target is None
    assert fine_tuning(1).max_steps == 3


@pytest.mark.parametrize(("size", "steps"), [(1, 64 * 4), (24, 12), (10, 28), (100, 4)])
def test_other_batches_keep_the_number_of_epochs(size, steps):
    """Twelve steps of 24 are four epochs of 64 examples, whatever the size of a batch."""
    tokenizer, model = build(DATA, 0, max_length=8)
    setup = TrainingSetup(encode(DATA.train, tokenizer, 8), tokenizer, RECIPE, 0, "cpu").in_batches_of(size)
    assert setup.steps == steps
    batches = [batch for _, batch in zip(range(setup.steps), setup.batches(), strict=False)]
    assert sum(len(batch.labels) for batch in batches) == 4 * 64
    assert max(len(batch.labels) for batch in batches) == min(size, 64)
    _, schedule = setup.optimizer(model)
    for _ in range(setup.steps):
        schedule.optimizer.step()
        schedule.step()
    assert schedule.get_last_lr()[0] == 0  # the schedule ends with the last step
