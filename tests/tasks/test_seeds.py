"""The seed of each draw follows from its parts alone, and from all of them."""

from __future__ import annotations

from typing import get_args

import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.seeds import Purpose, Seeds, drawn_from

NAME = st.text(max_size=8)
PARTS = st.tuples(NAME, NAME, NAME, st.integers(0, 2**32 - 1))
PURPOSE = st.sampled_from(get_args(Purpose))


def test_a_seed_is_the_same_on_every_machine():
    assert Seeds("mnli", "grammar-nli", "small-bert", 3).of("method") == 3482581622238178496


@given(first=PARTS, second=PARTS, purposes=st.tuples(PURPOSE, PURPOSE))
def test_any_other_part_is_another_seed(first, second, purposes):
    seeds = [Seeds(*parts).of(purpose) for parts, purpose in zip((first, second), purposes, strict=True)]
    assert (seeds[0] == seeds[1]) == ((first, purposes[0]) == (second, purposes[1]))
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_do_not_run_into_each_other():
    assert Seeds("a", "bc", "d", 1).of("method") != Seeds("ab", "c", "d", 1).of("method")


def test_what_is_drawn_on_the_cpu_asks_nothing_of_gpus_and_leaves_its_state(monkeypatch):
    """To ask them would use them, which no process that is forked later could."""

    def refuse(*_: object) -> None:
        raise AssertionError("asked the GPUs")

    torch.manual_seed(3)
    drawn = torch.rand(4)
    before = torch.get_rng_state()
    for name in ("manual_seed_all", "get_rng_state", "set_rng_state", "device_count"):
        monkeypatch.setattr(f"torch.cuda.{name}", refuse)
    for device in (None, torch.device("cpu")):
        with drawn_from(3, device):
            assert torch.equal(torch.rand(4), drawn)
        assert torch.equal(torch.get_rng_state(), before)
