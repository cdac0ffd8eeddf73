"""How many cells fit on the GPUs of a machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.run.options import ClusterOptions


@pytest.mark.parametrize(
    ("gpus", "share", "cells"),
    [
        (2, 0.6, 2),
        (4, 0.3, 12),
        (2, 0.5, 4),
        (3, 1 / 3, 9),
        (3, 2, 1),
        (4, 1, 4),
        (0, 0.5, 0),
        (1.4, 0.6, 1),
        (0.5, 1, 0),
    ],
)
def test_a_share_is_of_one_gpu(gpus, share, cells):
    assert ClusterOptions(gpus=share).fit(gpus) == cells


@given(gpus=st.integers(0, 16), share=st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0, 2.0, 3.0]))
def test_as_many_fit_as_can_be_placed_one_after_the_other(gpus, share):
    left, placed = [1.0] * gpus, 0
    while True:
        whole = [place for place, free in enumerate(left) if free > 1 - 1e-9]
        some = [place for place, free in enumerate(left) if free > share - 1e-9]
        places = whole[: int(share)] if share >= 1 else some[:1]
        if len(places) < max(1, int(share)):
            break
        for place in places:
            left[place] -= min(share, 1.0)
        placed += 1
    assert ClusterOptions(gpus=share).fit(gpus) == placed
