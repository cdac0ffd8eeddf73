"""Global random states and switches of the process: read, seed and restore them."""

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
    """Global random states by name, as values that can be compared."""
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
    """Seed all global random generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def isolated() -> Iterator[None]:
    """Run the code inside with all generators seeded with 0, then restore random states and switches."""
    numpy, python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(), restored_switches():
        try:
            seed_everything(0)
            yield
        finally:
            np.random.set_state(numpy)
            random.setstate(python)
