"""Temperatures: log-linear, then constant; the paper's at the paper's length."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.training.cooling import Cooling, by_steps, paper


def test_the_temperature_falls_log_linearly_and_then_stays():
    cooling = Cooling(1000.0, 1e-8, steps=11, learning_rate=0.5)
    powers = [math.log10(cooling.at(step)) for step in range(14)]
    assert powers == pytest.approx([3.0 - step for step in range(11)] + [-8.0] * 3)
    assert [Cooling(1000.0, 1e-8, 0, 0.5).at(step) for step in (0, 5)] == [1e-8, 1e-8]


def test_the_papers_schedule_keeps_its_share_of_cooldown():
    assert paper(36_816) == Cooling(1000.0, 1e-8, 25_000, 0.5)
    assert paper(12_272).steps == 8333  # pipelined, one epoch
    assert paper(100).steps == 68


def test_by_steps_is_the_papers_schedule_at_its_length_and_beyond():
    for steps in (36_816, 100_000):
        for ours in (by_steps(steps), by_steps(steps, frozen=True)):
            assert (ours.start, ours.end) == pytest.approx((paper(steps).start, paper(steps).end))
            assert (ours.steps, ours.learning_rate) == (paper(steps).steps, paper(steps).learning_rate)


def test_by_steps_stays_where_gates_move_however_few_the_steps():
    for steps in (1, 30, 120):
        cooling = by_steps(steps)
        assert cooling.start == pytest.approx(1, rel=0.05) and cooling.end == pytest.approx(0.01, rel=0.05)
    assert by_steps(120).learning_rate == pytest.approx(1.0, abs=0.05)


@given(st.integers(1, 200_000), st.integers(1, 200_000))
def test_more_steps_start_warmer_end_colder_and_learn_slower(one, other):
    fewer, more = map(by_steps, sorted((one, other)))
    assert fewer.start <= more.start and fewer.end >= more.end and fewer.steps <= more.steps
    assert fewer.learning_rate >= more.learning_rate
    assert by_steps(fewer.steps or 1, frozen=True).learning_rate <= by_steps(more.steps or 1, frozen=True).learning_rate
