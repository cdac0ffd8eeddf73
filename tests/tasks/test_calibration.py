"""What is held out of training for calibration: how much, disjoint in texts, and never seen in training."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.builtin import abilities, decoder
from tasks.classification import Classification
from tasks.data.calibration import divide, sample, size_held_out
from tasks.language_model import LanguageModel
from tasks.models import train
from tasks.models.cache import Cache
from tasks.request import TaskSpec

CPU = torch.device("cpu")
SEED = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("texts", "held_out"),
    [(3, 0), (4, 1), (160, 40), (512, 128), (1000, 128), (1280, 128), (2000, 200), (5120, 512), (48000, 512)],
)
def test_a_tenth_is_held_out_within_bounds(texts, held_out):
    assert size_held_out(range(texts)) == held_out
    assert size_held_out([*range(texts), *range(texts)]) == held_out  # repeats do not count


@given(texts=st.lists(st.integers(0, 30), max_size=120), seed=SEED)
def test_no_text_is_in_both_parts(texts, seed):
    training, held_out = divide(texts, seed)
    assert training == sorted(training) and held_out == sorted(held_out)
    kept_out = [texts[index] for index in held_out]
    assert len(set(kept_out)) == len(kept_out) == size_held_out(texts)
    assert training == [index for index, text in enumerate(texts) if text not in kept_out]
    assert divide(texts, seed) == (training, held_out)


def test_another_seed_holds_out_others():
    assert divide(range(100), 0) != divide(range(100), 1)


@given(pool=st.lists(st.integers(), unique=True, max_size=50), size=st.integers(0, 60), seed=SEED)
def test_a_sample_is_part_of_the_pool_in_its_order(pool, size, seed):
    found = sample(pool, size, seed)
    assert len(found) == min(size, len(pool))
    assert found == [each for each in pool if each in found] == sample(pool, size, seed)


def texts_of(batches):
    """The token ids of each example, without padding."""
    return [
        tuple(ids[mask.bool()].tolist())
        for batch in batches
        for ids, mask in zip(batch.inputs["input_ids"], batch.inputs["attention_mask"], strict=True)
    ]


def an_epoch(training, size):
    batches, found = training.batches(), []
    while len(found) < size:
        found += texts_of([next(batches)])
    return found


@pytest.fixture
def finetuned(tiny_data, tiny_model, tmp_path, monkeypatch):
    """A task that fine-tunes, open for seeds 0 and 1; and the texts that each model was trained and validated on."""
    task = Classification(TaskSpec(task="classification", data=str(tiny_data), model=str(tiny_model), finetune=True))
    seen, right = [], train.train

    def spy(model, tokenizer, data, *rest, **options):
        seen.append({example.texts for example in data.train + data.validation})
        return right(model, tokenizer, data, *rest, **options)

    monkeypatch.setattr(train, "train", spy)
    task.validate()
    cache = Cache(tmp_path)
    for seed in (0, 1):
        task.prepare(seed, cache, CPU)
        task.open(seed, cache, CPU)
    return task, seen


def test_a_trained_model_is_scored_on_texts_it_has_not_seen(finetuned):
    task, seen = finetuned
    train_split, test = ({e.texts for e in getattr(task.dataset, split)} for split in ("train", "test"))
    assert task.held_out == len(train_split) // 4 > 20
    for seed in (0, 1):
        held_out = {task.dataset.train[index].texts for index in task.division(seed).held_out}
        assert len(held_out) == task.held_out and held_out < train_split
        assert not held_out & (seen[seed] | test)
        calibration = texts_of(task.calibration(seed, 20, CPU))
        everything = texts_of(task.calibration(seed, 999, CPU))
        assert len(set(calibration)) == 20 and set(calibration) < set(everything) and len(everything) == len(held_out)
        rest = len(train_split) - len(held_out)
        trained = an_epoch(task.training(seed, 1.0, CPU), rest)  # of joint methods
        assert len(trained) == len(set(trained)) == rest and not set(trained) & set(everything)
        from_training = texts_of(task.calibration(seed, 20, CPU, "train"))
        assert len(from_training) == 20 and set(from_training) < set(trained)
    assert seen[0] != seen[1]
    assert task.calibration_indices(0, 20, "held-out") != task.calibration_indices(1, 20, "held-out")


def test_a_model_taken_as_it_is_is_scored_on_the_training_split(tiny_task):
    task = tiny_task.task
    assert task.held_out == 0 and len(task.division(0).training) == len(task.dataset.train)
    held_out, from_training = (task.calibration_indices(0, 30, source) for source in ("held-out", "train"))
    assert held_out == from_training and len(held_out) == 30


@pytest.mark.slow
def test_a_built_in_language_model_is_not_trained_on_statements_of_its_calibration(monkeypatch, tmp_path):
    task, seen = LanguageModel(TaskSpec(task="harness")), []

    def spy(model, tokenizer, splits, *rest, **options):
        seen.extend(splits["train"])
        return {}

    monkeypatch.setattr(decoder, "fit", spy)
    task.prepare(0, Cache(tmp_path), CPU)
    task.open(0, Cache(tmp_path), CPU)
    documents = abilities.documents()["train"]
    chosen = [documents[index] for index in task.calibration_indices(0, 128, "held-out")]
    assert task.held_out == 512 and len(chosen) == 128
    assert not {each.statement for each in chosen} & {each.statement for each in seen}
    assert {each.ability for each in chosen} == set(abilities.ABILITIES)
    assert len(documents) - 3 * 512 < len(seen) <= len(documents) - 512
    assert sum(len(batch.labels) for batch in task.calibration(0, 128, CPU)) == 128
    trained = an_epoch(task.training(0, 1.0, CPU), len(task.division(0).training))  # of joint methods
    assert not set(trained) & set(texts_of(task.calibration(0, 999, CPU)))


def test_draws_differ_between_data_sets_and_are_shared_by_methods(tiny_data, tiny_model, tmp_path):
    copy = tmp_path / "other.jsonl"
    copy.write_bytes(tiny_data.read_bytes())
    drawn = []
    for data in (tiny_data, tiny_data, copy):
        task = Classification(TaskSpec(task="classification", data=str(data), model=str(tiny_model)))
        drawn.append(task.calibration_indices(0, 50, "train"))
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.slow
def test_the_model_depends_on_the_seed_and_not_on_the_calibration(place):
    def weights(*flags):
        assert place.run("--finetune", "--methods", "none,michel", *flags) == 0
        return {name: (record["cell"], record["result"]) for name, record in place.records().items()}

    held_out, trained_on = weights(), weights("--calibration-from", "train")
    for found, source, size in ((held_out, "held-out", 37), (trained_on, "train", 111)):
        for cell, result in found.values():
            assert cell["calibration_from"] == source
            assert result["calibration"] == size  # of 148 texts, and 128 asked for
    cell, result = held_out["michel/seed0"]
    assert result["passes"]["forward"] == result["calibration"]
    assert {json.dumps(result["training"]) for found in (held_out, trained_on) for _, result in found.values()} == {
        json.dumps(result["training"])
    }
