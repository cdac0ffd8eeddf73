"""A pass restarted at a block must be the full pass, bit for bit; what is no plain stack of blocks is run in full."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from methods.heads import HeadMap, gated, restarting
from methods.heads.restart import Repeated, find_blocks
from methods.heads.shrink import shrink, working_copy

IN_FULL = {"albert", "bart", "marian", "t5", "mt5", "bert-to-gpt2"}  # tied layers, or a decoder beside an encoder


def count_blocks(model):
    """Counts how often any block's output projection runs."""
    calls = []
    for site in HeadMap.of(model).sites:
        model.get_submodule(site.output).register_forward_hook(lambda *_, name=site.name: calls.append(name))
    return calls


@torch.no_grad()
def test_full_passes_and_restarted_ones_agree(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(3)).tolist()
    mask = heads.full_mask()
    with restarting(model, heads) as restart:
        assert torch.equal(model(**batch).logits, working_copy_logits(zoo, family, heads, mask, batch))
        for unit in order:
            mask[unit] = False
            restart.changed(heads.units[unit].site)
            with gated(model, mask, heads):
                actual = model(**batch).logits
            assert torch.equal(actual, working_copy_logits(zoo, family, heads, mask, batch))
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def working_copy_logits(zoo, family, heads, mask, batch):
    """A full pass through a model of its own."""
    model = zoo.model(family)
    with gated(model, mask, heads):
        return model(**batch).logits


@torch.no_grad()
def test_blocks_below_a_change_are_passed_over(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    calls = count_blocks(model)
    with restarting(model, heads) as restart:
        assert bool(restart.blocks) == (family not in IN_FULL)
        model(**batch)
        calls.clear()
        restart.changed(len(heads.sites) - 1)
        model(**batch)
        assert len(calls) == (len(calls) if family in IN_FULL else 1)
        calls.clear()
        model(**{name: value.flip(0) for name, value in batch.items()})  # other inputs
        assert len(calls) >= len(heads.sites)


@pytest.mark.parametrize("fit", [0, 1, 2, 3])
@torch.no_grad()
def test_less_memory_means_fewer_blocks_to_start_at(zoo, fit):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    heads = HeadMap.of(model)
    size = 4 * 7 * 24 * 4
    calls = count_blocks(model)
    for limits in {"batch_bytes": fit * size}, {"total_bytes": fit * size}:
        with restarting(model, heads, **limits) as restart:
            expected = model(**batch).logits
            assert sum(
                t.numel() * 4 for known in restart._known.values() for t in known.of_block.values()
            ) == size * min(fit, 2)
            calls.clear()
            restart.changed(2)
            assert torch.equal(model(**batch).logits, expected)
            assert len(calls) == (1 if fit >= 2 or (fit and "batch_bytes" in limits) else 2 if fit else 3)


@torch.no_grad()
def test_a_branch_runs_copies_and_leaves_the_rest_alone(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    labels = torch.zeros(4)
    with restarting(model, heads) as restart:
        expected = model(**batch).logits
        for site in range(len(heads.sites)):
            units = (heads.site_of_unit == site).nonzero().flatten()
            gates = torch.ones(len(heads), len(units))
            gates[units, torch.arange(len(units))] = 0
            repeated = Repeated.of(Repeated(batch, labels), len(units))
            with gated(model, gates.repeat_interleave(4, 1), heads), restart.branching(site, len(units)):
                branches = model(**repeated.inputs).logits.unflatten(0, (len(units), 4))
            for branch, gate in zip(branches, gates.T, strict=True):
                zoo.assert_close(
                    branch, working_copy_logits(zoo, family, heads, gate.bool(), batch), what=f"site {site}"
                )
        assert torch.equal(model(**batch).logits, expected)


def test_with_gradients_every_block_runs(zoo):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    calls = count_blocks(model)
    with restarting(model, HeadMap.of(model)):
        model(**batch)
        calls.clear()
        assert model(**batch).logits.requires_grad
    assert len(calls) == 3


class Odd(nn.Module):
    """A model that reads more of its blocks than it should."""

    def __init__(self, model, read):
        super().__init__()
        self.model, self.read = model, read
        self.first = None
        model.bert.encoder.layer[0].register_forward_hook(self.keep)

    def keep(self, module, args, output):
        self.first = output

    def forward(self, **inputs):
        output = self.model(**inputs)
        output.logits = output.logits + self.first.mean() if self.read else output.logits
        return output


@pytest.mark.parametrize("read", [False, True])
@torch.no_grad()
def test_a_model_that_reads_lower_blocks_elsewhere_is_run_in_full(zoo, read):
    model, batch = Odd(zoo.model("bert"), read), zoo.batch("bert")
    heads = HeadMap.of(model)
    with gated(model, torch.arange(12) != 11, heads):
        expected = model(**batch).logits
    calls = count_blocks(model)
    with restarting(model, heads) as restart:
        model(**batch)
        calls.clear()
        restart.changed(2)
        with gated(model, torch.arange(12) != 11, heads):
            assert torch.equal(model(**batch).logits, expected)
    assert len(calls) == (3 if read else 1)


@pytest.mark.parametrize("step", ["in place", "not at all"])
@torch.no_grad()
def test_an_error_leaves_the_model_as_it_was(zoo, step):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    expected = model(**batch).logits
    with pytest.raises(ZeroDivisionError), restarting(model, HeadMap.of(model)):
        if step == "in place":
            model.bert.encoder.layer[1].register_forward_hook(lambda *_: 1 / 0)
        model(**batch) if step == "in place" else 1 / 0
    model.bert.encoder.layer[1]._forward_hooks.clear()
    assert torch.equal(model(**batch).logits, expected)
    assert not any("forward" in vars(module) for module in model.modules())


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
        assert len(left) == len(units)
        assert left.site_of_unit.tolist() == heads.site_of_unit[units].tolist()
    after = model.state_dict()
    assert after.keys() == weights.keys() and all(torch.equal(after[name], weights[name]) for name in weights)


def test_blocks_of_what_is_no_stack(zoo):
    for family in IN_FULL:
        model = zoo.model(family)
        assert find_blocks(model, HeadMap.of(model)) == []
