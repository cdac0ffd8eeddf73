"""A working copy that loses heads step by step must give the logits of the gated model, which stays as it is."""

from __future__ import annotations

import pytest
import torch

from methods.heads import HeadMap, gated
from methods.heads.finding.sites import find_sites
from methods.heads.surgery.shrink import shrink, working_copy


@pytest.mark.typical
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_a_working_copy_shrinks_and_the_model_does_not(zoo, family, unit, attention):
    model, batch = zoo.model(family, attention=attention), zoo.batch(family)
    heads = HeadMap.of(model, unit)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    smaller, mask, left = working_copy(model), heads.full_mask(), heads
    assert {id(p) for p in smaller.parameters()} == {id(p) for p in model.parameters()}
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(1))
    units = torch.arange(len(heads))
    for some in order.split(3):
        keep = ~torch.isin(units, some)
        left, units = shrink(smaller, keep, left), units[keep]
        mask[some] = False
        with gated(model, mask, heads):
            expected = model(**batch).logits
        zoo.assert_close(smaller(**batch).logits, expected)
        assert len(left) == len(units) and left.sites == find_sites(smaller)
        assert left.site_of_unit.tolist() == heads.site_of_unit[units].tolist()
    after = model.state_dict()
    assert after.keys() == weights.keys() and all(torch.equal(after[name], weights[name]) for name in weights)
