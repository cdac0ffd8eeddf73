"""Groups of a batch must hold every example once, with all its tokens, and no padding that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from methods.heads.incremental import LengthGroup, group_by_length
from methods.heads.incremental.length_groups import PASS_COST


@dataclass
class Texts:
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor


def texts(lengths, before=0):
    """Texts of these lengths, each token another number, with ``before`` tokens of padding before all of them."""
    width = before + max(lengths)
    places = torch.arange(width)
    mask = torch.stack([(places >= before) & (places < before + length) for length in lengths]).long()
    ids = (torch.arange(len(lengths) * width) + 1).view(len(lengths), width) * mask
    extra = {"weights": ids / 2, "decoder_input_ids": ids + 7, "position": torch.arange(len(lengths))}
    return Texts({"input_ids": ids, "attention_mask": mask} | extra, torch.arange(len(lengths)))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 2), st.integers(1, 4), st.integers(1, 2**24)
)
def test_every_example_is_in_exactly_one_group(lengths, before, copies, weights):
    batch = texts(lengths, before)
    groups = group_by_length([batch], nn.Linear(weights, 1, bias=False, device="meta"), copies)
    assert sorted(label for group in groups for label in group.labels.tolist()) == list(range(len(lengths)))
    padding = 0
    for group in groups:
        rows, length = group.labels, before + max(lengths[row] for row in group.labels)
        for name, values in group.inputs.items():
            whole = batch.inputs[name][rows]
            assert torch.equal(values, whole[:, :length] if name not in ("decoder_input_ids", "position") else whole)
        padding += (group.inputs["input_ids"][:, before:] == 0).sum().item()
    # Each text that made a group longer cost less time than another pass would have.
    assert padding * copies * weights <= len(lengths) * PASS_COST["cpu"]


def test_a_large_model_runs_without_padding_and_a_tiny_one_in_one_pass():
    batch = texts([3, 5, 3, 9])
    assert [group.labels.tolist() for group in group_by_length([batch], nn.Linear(4096, 4096), 4)] == [
        [0, 2],
        [1],
        [3],
    ]
    assert [group.labels.tolist() for group in group_by_length([batch], nn.Linear(4, 4), 4)] == [[0, 2, 1, 3]]


def test_a_text_without_tokens_keeps_one_place():
    batch = texts([3, 0, 0])
    groups = group_by_length([batch], nn.Linear(4096, 4096), 4)
    assert [(group.labels.tolist(), group.inputs["input_ids"].shape[1]) for group in groups] == [
        ([1, 2], 1),
        ([0], 3),
    ]


def test_without_a_mask_the_batch_is_one_group():
    batch = Texts({"pixel_values": torch.rand(3, 2, 4, 4)}, torch.arange(3))
    (group,) = group_by_length([batch], nn.Linear(2, 2), 1)
    assert group.inputs is batch.inputs and group.labels is batch.labels


@pytest.mark.parametrize("copies", [1, 3])
def test_copies_stand_one_after_the_other(copies):
    batch = texts([2, 4])
    repeated = LengthGroup(batch.inputs, batch.labels).repeated(copies)
    assert repeated.labels.tolist() == [0, 1] * copies
    for name, values in repeated.inputs.items():
        assert torch.equal(values, torch.cat([batch.inputs[name]] * copies))


def test_labels_with_several_entries_stay_with_their_examples():
    """One for each token, or several for each text: the batch stays whole, as the loss may pair them with tokens."""
    batch = texts([3, 1, 9])
    batch.labels = batch.inputs["input_ids"]
    (group,) = group_by_length([batch], nn.Linear(4096, 4096), 4)
    assert torch.equal(group.labels, batch.labels) and torch.equal(group.inputs["input_ids"], batch.labels)
    twice = group.repeated(2)
    assert torch.equal(twice.labels, torch.cat([batch.labels] * 2))
    assert torch.equal(twice.inputs["input_ids"], twice.labels)
