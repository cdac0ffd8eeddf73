"""Every size is timed equally often."""

from __future__ import annotations

import pytest
import torch

from bench.measure import latency
from methods.heads import remove_heads


@pytest.fixture
def models(tiny_task) -> dict[int, torch.nn.Module]:
    masks = {removed: torch.arange(8) >= removed for removed in (0, 4, 8)}
    return {removed: remove_heads(tiny_task.model, mask) for removed, mask in masks.items()}


def test_every_size_is_sampled_equally_often_at_each_batch_size(tiny_task, models):
    got = latency.forward_latency(tiny_task.task, [models], torch.device("cpu"))
    assert set(got.samples) == {1, 8, 32}
    for samples in got.samples.values():
        assert {removed: len(s) for removed, s in samples.items()} == dict.fromkeys((0, 4, 8), latency.REPEATS)
        assert all(second > 0 for s in samples.values() for second in s)
    assert (got.dtype, got.device, got.threads) == ("float32", "cpu", torch.get_num_threads())
    assert got.length.keys() == {1, 8, 32} and all(2 < length <= 32 for length in got.length.values())


def test_repeats_of_all_models_are_interleaved_at_each_batch_size_by_itself(tiny_task, models, monkeypatch):
    seen = []
    names = {id(model): removed for removed, model in models.items()}
    logits = tiny_task.task.logits
    monkeypatch.setattr(
        tiny_task.task,
        "logits",
        lambda model, batch: seen.append((names[id(model)], len(batch.labels))) or logits(model, batch),
    )
    latency.forward_latency(tiny_task.task, [models], torch.device("cpu"))
    repeats = range(latency.WARM_UPS + latency.REPEATS)
    assert seen == [(removed, size) for size in (1, 8, 32) for _ in repeats for removed in (0, 4, 8)]


def test_a_slow_model_is_sampled_less_often_but_at_least_five_times_and_equally(tiny_task, models, monkeypatch):
    monkeypatch.setattr(latency, "PATIENCE", 0.0)
    got = latency.forward_latency(tiny_task.task, [models], torch.device("cpu"))
    assert {len(s) for samples in got.samples.values() for s in samples.values()} == {5}
