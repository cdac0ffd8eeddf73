"""Quality from the outcomes of examples, for sub-tasks of different sizes."""

from __future__ import annotations

import math

import pytest
import torch

from tasks.outcomes import Outcomes


def test_accuracy_is_the_mean_over_sub_tasks_and_not_over_examples():
    correct = torch.tensor([True] * 6 + [False] * 2)
    assert Outcomes(correct, {"one": 6, "other": 2}).quality == 0.5  # 0.75 of all examples
    assert Outcomes(correct, {"all": 8}).quality == 0.75


def test_the_probability_of_a_byte_is_a_mean_over_the_bytes_of_each_sub_task():
    nats = {"one": torch.tensor([2.0, 4.0]).double(), "other": torch.tensor([1.0]).double()}
    sizes = {"one": torch.tensor([1, 5]), "other": torch.tensor([4])}
    found = Outcomes(torch.zeros(0, dtype=torch.bool), {}, nats, sizes).quality
    assert found == pytest.approx((math.exp(-6 / 6) + math.exp(-1 / 4)) / 2)
