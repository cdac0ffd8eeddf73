"""How smaller models are timed: what is measured, and how many are held at once."""

from __future__ import annotations

import time
import weakref

import pytest
import torch

from bench.measure import timing
from bench.measure.latency import forward_latency
from bench.measure.timing import groups, interleaved, timed_levels
from methods.contract.choice import Choice
from methods.heads import HeadMap, find_mlps


@pytest.fixture
def choices(tiny_task) -> dict[int, Choice]:
    """Of 8 units 0, 3 and 8 removed, and as large a share of the neurons."""
    heads, model = HeadMap.of(tiny_task.model), tiny_task.model
    return {
        removed: Choice(
            model,
            heads,
            torch.arange(8) >= removed,
            {mlp.name: torch.arange(mlp.width) >= removed * mlp.width // 8 for mlp in find_mlps(model)},
        )
        for removed in (0, 3, 8)
    }


@pytest.fixture
def alive(monkeypatch) -> list[int]:
    """How many smaller models there are whenever one is made, with that one."""
    made: list[weakref.ref] = []
    counts: list[int] = []
    smaller = Choice.smaller

    def make(choice: Choice):
        model = smaller(choice)
        made.append(weakref.ref(model))
        counts.append(sum(one() is not None for one in made))
        return model

    monkeypatch.setattr(Choice, "smaller", make)
    return counts


@pytest.mark.parametrize(("most", "together"), [(0, False), (2**30, True)])
def test_large_models_are_there_one_at_a_time_and_small_ones_at_once(
    tiny_task, choices, alive, monkeypatch, most, together
):
    monkeypatch.setattr(timing, "TOGETHER", most)
    times = forward_latency(tiny_task.task, groups(choices), torch.device("cpu"))
    assert times.interleaved is together
    assert all(5 <= len(samples) <= 20 for by in times.samples.values() for samples in by.values())
    assert all(list(by) == [0, 3, 8] for by in times.samples.values())
    assert alive == ([1, 2, 3] if together else [1, 1, 1])


def test_the_time_that_a_call_waits_is_wall_time_and_no_processor_time():
    calls = {"sleep": lambda: time.sleep(0.01)}
    found = interleaved(calls, torch.device("cpu"), warm_ups=1, repeats=3, patience=60)["sleep"]
    assert len(found.wall) == len(found.processor) == 3
    assert min(found.wall) >= 0.0099 and max(found.processor) < min(found.wall)


def test_levels_are_timed_that_were_measured_and_are_nearest_to_the_usual_shares():
    assert timed_levels((0, 2, 4, 6, 8, 10, 12, 14, 16), 16, generate=False) == [0, 4, 8, 12, 14]
    assert timed_levels((0, 8, 16), 16, generate=False) == [0, 8, 16]
    assert timed_levels((0, 3, 8), 8, generate=False) == [0, 3, 8]
    assert timed_levels((0, 4, 8, 12, 16), 16, generate=False) == [0, 4, 8, 12, 16]
    assert timed_levels((0, 2, 4, 5, 6, 16), 16, generate=True) == [0, 2, 4, 5, 6, 16]


def test_whole_weights_are_shared_with_the_model(tiny_task, choices):
    """All but the heads and neurons that stay: those alone take memory beside the whole model."""
    own = {id(weight) for weight in tiny_task.model.parameters()}
    heads_alone = Choice(tiny_task.model, choices[3].heads, choices[3].mask).smaller()
    new = [name for name, weight in heads_alone.named_parameters() if id(weight) not in own]
    assert new and all(".layer.0.attention." in name for name in new)  # where three of four heads went
    whole = Choice(tiny_task.model, choices[0].heads, choices[0].mask).smaller()
    assert {id(weight) for weight in whole.parameters()} == own
