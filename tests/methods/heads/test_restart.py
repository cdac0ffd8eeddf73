"""A pass restarted at a block must be the full pass; what is no plain stack of blocks is run in full."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from methods.heads import HeadMap, gated, restarting
from methods.heads.finding.blocks import find_blocks
from methods.heads.finding.sites import find_sites
from methods.heads.incremental.length_groups import Portion
from methods.heads.surgery.shrink import shrink, working_copy

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
            zoo.assert_close(actual, working_copy_logits(zoo, family, heads, mask, batch))
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
            assert sum(t.numel() * 4 for known in restart._known.values() for t in known.inputs.values()) == size * min(
                fit, 2
            )
            calls.clear()
            restart.changed(2)
            zoo.assert_close(model(**batch).logits, expected)
            assert len(calls) == (1 if fit >= 2 or (fit and "batch_bytes" in limits) else 2 if fit else 3)


@torch.no_grad()
def test_copies_without_a_unit_each(zoo, family):
    """Beside gates around them, and with copies enough to be as many rows as a text has tokens."""
    model, batch = zoo.model(family), zoo.batch(family)
    heads, labels = HeadMap.of(model), torch.zeros(4)
    around = torch.linspace(0.5, 1.5, len(heads))
    with gated(model, around, heads), restarting(model, heads) as restart:
        expected = model(**batch).logits
        for site in range(len(heads.sites)):
            units = (heads.site_of_unit == site).nonzero().flatten().tolist()
            with restart.without(units, 4):
                logits = model(**Portion(batch, labels).repeated(len(units)).inputs).logits
            for unit, actual in zip(units, logits.unflatten(0, (len(units), 4)), strict=True):
                gate = around * (torch.arange(len(heads)) != unit)
                zoo.assert_close(actual, working_copy_logits(zoo, family, heads, gate, batch), what=f"site {site}")
        zoo.assert_close(model(**batch).logits, expected)


@torch.no_grad()
def test_as_many_rows_as_tokens(zoo):
    model, batch = zoo.model("bert"), {name: value[:, :4] for name, value in zoo.batch("bert").items()}
    heads = HeadMap.of(model)
    with restarting(model, heads) as restart:
        for _ in range(2):
            model(**batch)
            with restart.without([3], 4):
                actual = model(**batch).logits
            zoo.assert_close(actual, working_copy_logits(zoo, "bert", heads, torch.arange(12) != 3, batch))
        with pytest.raises(ValueError, match="of one site"), restart.without([3, 4], 4):
            pass


class Pooled(nn.Module):
    """A classifier that reads every position of a BERT."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        hidden = self.model.bert(**inputs).last_hidden_state.masked_fill(inputs["attention_mask"][..., None] == 0, 0)
        return SequenceClassifierOutput(logits=self.model.classifier(hidden.mean(1)))


@pytest.mark.parametrize(("name", "pooled", "rows"), [("bert", True, 7), ("bert", False, 1), ("llama", False, 1)])
@torch.no_grad()
def test_the_top_block_runs_where_it_is_read(zoo, name, pooled, rows):
    model, seen = zoo.model(name), []
    model = Pooled(model) if pooled else model
    heads = HeadMap.of(model)
    for module in (m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == 20):
        module.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape[1]))
    mask = heads.full_mask()
    mask[-1] = False
    batches = [zoo.batch(name, padding) for padding in ("right", "left")]
    with gated(model, mask, heads):
        expected = [model(**batch).logits for batch in batches]
    with restarting(model, heads) as restart:
        for batch, wanted in zip(batches, expected, strict=True):
            model(**batch)
            seen.clear()
            restart.changed(2)
            with gated(model, mask, heads):
                actual = model(**batch).logits
            assert set(seen) == {rows}
            zoo.assert_close(actual, wanted)


@torch.no_grad()
def test_queries_that_read_one_another_run_everywhere(zoo):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    heads = HeadMap.of(model)
    mix = lambda module, args, output: output + output.mean(1, keepdim=True)  # noqa: E731
    model.get_submodule(heads.sites[2].projections["query"]).register_forward_hook(mix)
    with gated(model, torch.arange(12) != 3, heads):
        expected = model(**batch).logits
    with restarting(model, heads) as restart:
        model(**batch)
        restart.changed(0)
        with gated(model, torch.arange(12) != 3, heads):
            zoo.assert_close(model(**batch).logits, expected)
        assert restart._splits


@pytest.mark.parametrize("mixes", [True, False])
@torch.no_grad()
def test_texts_of_one_token_decide_nothing_for_longer_ones(zoo, mixes):
    model, batch = zoo.model("bert" if mixes else "llama"), zoo.batch("bert")
    heads, gates = HeadMap.of(model), torch.arange(12) != 3
    if mixes:
        mix = lambda module, args, output: output + output.mean(1, keepdim=True)  # noqa: E731
        model.get_submodule(heads.sites[2].projections["query"]).register_forward_hook(mix)
    gates = gates[: len(heads)]
    with gated(model, gates, heads):
        expected = model(**batch).logits
    with restarting(model, heads) as restart:
        for _ in range(2):
            model(**{name: value[:, :1] for name, value in batch.items()})
            model(**batch)
        restart.changed(0)
        with gated(model, gates, heads):
            zoo.assert_close(model(**batch).logits, expected)
        assert restart._last.read is not None and restart._narrow is not mixes


def test_in_inference_mode_every_block_runs(zoo):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    calls = count_blocks(model)
    with torch.inference_mode():
        expected = model(**batch).logits
        with restarting(model, HeadMap.of(model)):
            calls.clear()
            for _ in range(2):
                assert torch.equal(model(**batch).logits, expected)
    assert len(calls) == 6


@torch.no_grad()
def test_inputs_that_are_views_of_others(zoo):
    model, ids = zoo.model("bert"), zoo.batch("bert")["input_ids"]
    with restarting(model, HeadMap.of(model)) as restart:
        for view in (ids[:, :1], ids[:1, ::2], ids[:, :2].T):
            expected = model(input_ids=view.clone()).logits
            zoo.assert_close(model(input_ids=view).logits, expected)
        assert len(restart._known) == 3


@pytest.mark.parametrize("how", ["bfloat16", "autocast"])
@torch.no_grad()
def test_in_half_precision_a_small_rest_is_not_lost(zoo, how):
    """Where one head is far larger than the others, the output without it is as near as that of gates."""
    model, batch = zoo.model("bert"), zoo.batch("bert")
    heads, gate = HeadMap.of(model), torch.arange(12) != 5
    weight = model.get_submodule(heads.sites[1].output).weight
    weight[:, heads.sites[1].columns([1])] *= 300
    portion = Portion(batch, torch.zeros(4))
    with gated(model, gate, heads):
        exact = model(**batch).logits
    model = model.bfloat16() if how == "bfloat16" else model
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        with gated(model, gate, heads):
            by_gates = (model(**batch).logits - exact).abs().max()
        with restarting(model, heads) as restart:
            model(**batch)
            with restart.without([4, 5], 4):
                found = model(**portion.repeated(2).inputs).logits[4:]
    assert (found - exact).abs().max() <= 2 * by_gates + 1e-4


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
            zoo.assert_close(model(**batch).logits, expected)
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
        assert len(left) == len(units) and left.sites == find_sites(smaller)
        assert left.site_of_unit.tolist() == heads.site_of_unit[units].tolist()
    after = model.state_dict()
    assert after.keys() == weights.keys() and all(torch.equal(after[name], weights[name]) for name in weights)


def test_blocks_of_what_is_no_stack(zoo):
    for family in IN_FULL:
        model = zoo.model(family)
        assert find_blocks(model, HeadMap.of(model)) == []


@torch.no_grad()
def test_attention_that_lost_heads_does_not_run_again(zoo, family, unit):
    """Levels of a trajectory, two units each: the logits of full passes through the gated model, by contexts kept."""
    model, batch = working_copy(zoo.model(family)), zoo.batch(family)
    whole = heads = HeadMap.of(model, unit)
    runs = []
    for site in heads.sites:
        for path in site.projections.values():
            model.get_submodule(path).register_forward_hook(lambda *_, name=site.name: runs.append(name))
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(5))
    units = torch.arange(len(heads))
    with restarting(model, heads) as restart:
        model(**batch)
        for count in range(2, len(order), 2):
            keep = ~torch.isin(units, order[:count])
            kept, sites = heads.kept(keep), heads.site_of_unit[~keep].unique().tolist()
            for site in sites:
                restart.lost(site, kept[heads.sites[site].name])
            heads, units = shrink(model, keep, heads), units[keep]
            runs.clear()
            actual = model(**batch).logits
            lowest = heads.sites[sites[0]]
            if restart.blocks and lowest.num_heads:
                assert lowest.name not in runs
            mask = ~torch.isin(torch.arange(len(whole)), order[:count])
            zoo.assert_close(actual, working_copy_logits(zoo, family, whole, mask, batch), what=f"{count} removed")
