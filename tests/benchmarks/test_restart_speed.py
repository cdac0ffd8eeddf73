"""How much faster restarting at the lowest change is than a full pass through the masked model for every mask."""

from __future__ import annotations

import pytest
import torch

from methods.heads import gated, restarting
from methods.heads.surgery.shrink import shrink, working_copy
from methods.oracle_greedy import leave_one_out

REPEATS = {"suite": 5, "minilm": 1}
TEXTS = 128


@torch.no_grad()
def masked_passes(view, masks):
    """Logits of every mask: (masks, texts, classes)."""
    rows = []
    for mask in masks:
        with gated(view.model, mask.float(), view.heads):
            rows.append(torch.cat([view.logits(batch) for batch in view.batches]))
    return torch.stack(rows)


@torch.no_grad()
def nested(view, order):
    """The same for the masks along a removal order, on a model that loses its heads for good."""
    model, heads, rows = working_copy(view.model), view.heads, []
    units = torch.arange(len(heads))
    with restarting(model, heads) as restart:
        for unit in (None, *order.tolist()):
            if unit is not None:
                site = heads.units[int((units == unit).nonzero())].site
                restart.changed(site)
                heads = shrink(model, units != unit, heads)
                units = units[units != unit]
            rows.append(torch.cat([view.forward(model, batch) for batch in view.batches]))
    return torch.stack(rows)


def ratio(workload, slow, fast, repeats):
    """Ratio of processor times, slow and fast run in turn; and what they return."""
    pairs = [(workload.seconds(slow), workload.seconds(fast)) for _ in range(repeats)]
    return sum(a for (a, _), _ in pairs) / sum(b for _, (b, _) in pairs), pairs[0][0][1], pairs[0][1][1]


@pytest.mark.parametrize("shape", REPEATS)
def test_every_level_of_a_trajectory(benchmark, workload, tell, shape):
    view = workload.view(shape, TEXTS, (5, 25))
    order = torch.randperm(len(view.heads), generator=torch.Generator().manual_seed(1))
    masks = torch.ones(len(order) + 1, len(order), dtype=torch.bool)
    for level in range(len(order)):
        masks[level + 1 :, order[level]] = False
    times, expected, actual = ratio(
        workload, lambda: masked_passes(view, masks), lambda: nested(view, order), REPEATS[shape]
    )
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    tell(f"{shape}: levels of a trajectory, {len(masks)} of them, times as fast", times)
    benchmark.pedantic(nested, (view, order), rounds=1)


@pytest.mark.parametrize("shape", REPEATS)
def test_leave_one_out(benchmark, workload, tell, shape):
    view = workload.view(shape, TEXTS, (5, 25))
    masks = torch.cat([view.kept[None], ~torch.eye(len(view.heads), dtype=torch.bool)])
    times, logits, actual = ratio(
        workload, lambda: masked_passes(view, masks), lambda: leave_one_out(view), REPEATS[shape]
    )
    labels = torch.cat([batch.labels for batch in view.batches])
    losses = torch.stack([torch.nn.functional.cross_entropy(row, labels) for row in logits.double()])
    torch.testing.assert_close(actual, losses[1:] - losses[0], rtol=1e-2, atol=1e-6)
    tell(f"{shape}: leave-one-out, {len(view.heads)} heads, times as fast", times)
    benchmark.pedantic(leave_one_out, (view,), rounds=1)
