"""What a process has besides the model: random states and switches of its libraries."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def switches() -> dict[str, Any]:
    """What is to be as it was after a method: by what to call it."""
    return {
        "gradients being on": torch.is_grad_enabled(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's number of threads": torch.get_num_threads(),
        "torch's deterministic algorithms being on": torch.are_deterministic_algorithms_enabled(),
    }


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
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(), torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            seed_everything(0)
            yield
        finally:
            np.random.set_state(numpy)
            random.setstate(python)
            torch.set_default_dtype(dtype)
            torch.use_deterministic_algorithms(deterministic)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
