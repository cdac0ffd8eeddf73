"""Random states of a process, and how to keep what happens to them, and to switches, from lasting."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from methods.contract.side_effects import restored_switches


def random_states() -> dict[str, Any]:
    """Global random states, comparable: by what to call them."""
    numpy = np.random.get_state(legacy=False)
    states = {
        "torch's global random state": torch.get_rng_state().numpy().tobytes(),
        "Python's global random state": random.getstate(),
        "NumPy's global random state": pickle.dumps(numpy),
    }
    if torch.cuda.is_available():
        states["CUDA's global random state"] = torch.cuda.get_rng_state().numpy().tobytes()
    return states


def seed_everything(seed: int) -> None:
    """Begin all global random states at ``seed``."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def sealed() -> Iterator[None]:
    """Whatever happens inside to random states and switches does not last."""
    numpy, python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(), restored_switches():
        try:
            seed_everything(0)
            yield
        finally:
            np.random.set_state(numpy)
            random.setstate(python)
