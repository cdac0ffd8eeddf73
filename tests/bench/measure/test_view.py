"""What a method sees: draws of its own for each task, and calibration examples from where they were asked for."""

from __future__ import annotations

import pytest
import torch

from bench.measure.view import view_of
from bench.records.errors import InputError
from bench.suites.cells import calibration_source
from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.random import random
from tasks.classification import Classification
from tasks.models.cache import Cache
from tasks.request import TaskSpec

CPU = torch.device("cpu")


@pytest.fixture
def view_on(tiny_model, tmp_path):
    """A view of the tiny model for a method, on a file of data."""
    load_plugins()

    def view(data, method="random", seed=0):
        task = Classification(TaskSpec(task="classification", data=str(data), model=str(tiny_model)))
        model = task.open(seed, Cache(tmp_path), CPU).requires_grad_(False)
        return view_of(task, model, METHODS[method], seed, 8, 1.0, CPU)

    return view


def test_random_orders_differ_between_tasks_and_seeds(view_on, tiny_data, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_bytes(tiny_data.read_bytes())
    first, again, elsewhere, later = (
        random(view_on(data, seed=seed)) for data, seed in ((tiny_data, 0), (tiny_data, 0), (other, 0), (tiny_data, 1))
    )
    assert torch.equal(first, again)
    assert not torch.isin(first, torch.cat([elsewhere, later])).any()


def test_all_methods_draw_from_the_same_generators(view_on, tiny_data):
    """Their own, torch's, and the order of training examples; the latter two have nothing in common with the first."""
    draws = {}
    for method in ("random", "michel", "dsp-joint"):
        view = view_on(tiny_data, method)
        draws[method] = [torch.rand(8, generator=view.generator), torch.rand(8)]
    assert all(torch.equal(a, b) for name in draws for a, b in zip(draws[name], draws["random"], strict=True))
    assert not torch.isin(*draws["random"]).any()


class Stub:
    """A task with so many examples held out."""

    spec, data_name = TaskSpec(task="classification"), "data"

    def __init__(self, held_out: int):
        self.held_out = held_out


@pytest.mark.parametrize(
    ("held_out", "size", "wanted", "source"),
    [
        (0, 128, "held-out", "train"),
        (0, 9999, "held-out", "train"),
        (512, 512, "held-out", "held-out"),
        (512, 128, "train", "train"),
        (512, 9999, "train", "train"),
        (40, 128, "held-out", "held-out"),  # all that are
    ],
)
def test_where_calibration_examples_come_from(held_out, size, wanted, source):
    assert calibration_source(Stub(held_out), size, wanted) == source


@pytest.mark.parametrize("held_out", [128, 512])
def test_more_than_is_held_out_is_refused(held_out):
    with pytest.raises(InputError, match=rf"{held_out + 1} calibration examples, but {held_out} are held out") as told:
        calibration_source(Stub(held_out), held_out + 1, "held-out")
    assert "--calibration-from train" in str(told.value) and "\n" not in str(told.value)
