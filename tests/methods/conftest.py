"""Tiny random models, batches with padding, and what a method sees of them."""

from __future__ import annotations

import pytest
import torch

from bench.suites.plugins import load_plugins
from methods.checks.tiny import ARCHITECTURES, Tiny
from tests.fixtures.slow import slow_cases

SLOW = ("albert", "llama-query")

torch.set_num_threads(1)
load_plugins()


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return Tiny()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes an architecture runs for all of them.

    With one query head as a unit, or with layers that share weights, it is slow: the tests of all methods run on such
    models too.
    """
    if "architecture" in metafunc.fixturenames:
        fast = [name for name in ARCHITECTURES if name not in SLOW]
        metafunc.parametrize("architecture", [*fast, *slow_cases(*SLOW)])
