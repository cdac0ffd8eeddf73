"""A restarted pass must give the logits of a full pass; models that are not one plain stack of blocks run in full."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from methods.heads import HeadMap, gated, restarting
from methods.heads.finding.blocks import find_blocks
from methods.heads.incremental import LengthGroup

IN_FULL = {
    *(
        "albert",
        "bart",
        "marian",
        "t5",
        "mt5",
        "umt5",
        "switch",
        "longt5",
        "bert-to-gpt2",
    ),  # tied layers, or an encoder's decoder
    *("xlm", "flaubert"),  # their layers are no modules
}
RETURNS_MAPS = {"roformer", "gptj", "codegen", "bloom"}  # its blocks always return more than the next one's input


def count_blocks(model):
    """Counts how often any block's output projection runs."""
    calls = []
    for site in HeadMap.of(model).sites:
        model.get_submodule(site.output).register_forward_hook(lambda *_, name=site.name: calls.append(name))
    return calls


@pytest.mark.typical
@torch.no_grad()
def test_full_passes_and_restarted_ones_agree(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(3)).tolist()
    mask = heads.full_mask()
    with restarting(model, heads) as restart:
        assert torch.equal(model(**batch).logits, full_logits(zoo, family, heads, mask, batch))
        for unit in order:
            mask[unit] = False
            restart.changed(heads.units[unit].site)
            with gated(model, mask, heads):
                actual = model(**batch).logits
            zoo.assert_close(actual, full_logits(zoo, family, heads, mask, batch))
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def full_logits(zoo, family, heads, mask, batch):
    """A full pass through a model of its own."""
    model = zoo.model(family)
    with gated(model, mask, heads):
        return model(**batch).logits


@pytest.mark.typical
@torch.no_grad()
def test_blocks_below_a_change_are_passed_over(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    heads = HeadMap.of(model)
    calls = count_blocks(model)
    with restarting(model, heads) as restart:
        model(**batch)
        calls.clear()
        restart.changed(len(heads.sites) - 1)
        model(**batch)
        in_full = sum(site.calls for site in heads.sites)
        assert len(calls) == (in_full if family in IN_FULL | RETURNS_MAPS else 1)
        calls.clear()
        model(**{name: value.flip(0) for name, value in batch.items()})  # other inputs
        assert len(calls) >= len(heads.sites)


@torch.no_grad()
def test_a_mask_of_pairs_of_tokens_says_nothing_of_the_last_one(zoo):
    model, batch = zoo.model("llama"), zoo.batch("llama")
    pairs = torch.ones(len(batch["input_ids"]), 1, *[batch["input_ids"].shape[1]] * 2).tril().log()
    expected = model(input_ids=batch["input_ids"], attention_mask=pairs).logits
    heads = HeadMap.of(model)
    with restarting(model, heads) as restart:
        for _ in range(2):
            zoo.assert_close(model(input_ids=batch["input_ids"], attention_mask=pairs).logits, expected)
            restart.changed(1)


@pytest.mark.parametrize("fit", [0, 1, 2])
@torch.no_grad()
def test_batches_that_do_not_fit_run_in_full(zoo, fit):
    """``fit`` of two batches: each needs the inputs of two blocks."""
    model = zoo.model("bert")
    batches = [zoo.batch("bert", padding) for padding in ("right", "left")]
    heads = HeadMap.of(model)
    expected = [model(**batch).logits for batch in batches]
    calls = count_blocks(model)
    with restarting(model, heads, stored_bytes=fit * 2 * 4 * 7 * 24 * 4 + 1) as restart:
        for batch in batches:
            model(**batch)
        calls.clear()
        restart.changed(2)
        for batch, wanted in zip(batches, expected, strict=True):
            zoo.assert_close(model(**batch).logits, wanted)
    assert len(calls) == [6, 4, 2][fit]


@pytest.mark.typical
@torch.no_grad()
def test_copies_without_a_unit_each(zoo, family):
    """Inside other gates, and with the rest of the model as it was afterwards."""
    model, batch = zoo.model(family), zoo.batch(family)
    heads, labels = HeadMap.of(model), torch.zeros(4)
    around = torch.linspace(0.5, 1.5, len(heads))
    with gated(model, around, heads), restarting(model, heads) as restart:
        expected = model(**batch).logits
        for site in range(len(heads.sites)):
            units = (heads.site_of_unit == site).nonzero().flatten().tolist()
            with restart.without(units):
                logits = model(**LengthGroup(batch, labels).repeated(len(units)).inputs).logits
            for unit, actual in zip(units, logits.unflatten(0, (len(units), 4)), strict=True):
                gate = around * (torch.arange(len(heads)) != unit)
                zoo.assert_close(actual, full_logits(zoo, family, heads, gate, batch), what=f"site {site}")
        zoo.assert_close(model(**batch).logits, expected)


@torch.no_grad()
def test_copies_lack_units_of_one_site_only(zoo):
    model = zoo.model("bert")
    with (
        restarting(model, HeadMap.of(model)) as restart,
        pytest.raises(ValueError, match="of one site"),
        restart.without([3, 4]),
    ):
        pass


@torch.no_grad()
def test_copies_do_not_run_the_blocks_below(zoo):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    calls = count_blocks(model)
    with restarting(model, HeadMap.of(model)) as restart:
        model(**batch)
        for site in range(3):
            calls.clear()
            with restart.without([4 * site, 4 * site + 1]):
                model(**LengthGroup(batch, torch.zeros(4)).repeated(2).inputs)
            assert len(calls) == 3 - site


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
def test_a_top_block_that_mixes_positions_after_the_attention_runs_everywhere(zoo):
    model, batch = zoo.model("bert"), zoo.batch("bert")
    heads, gates = HeadMap.of(model), torch.arange(12) != 3
    model.bert.encoder.layer[2].intermediate.register_forward_hook(
        lambda module, args, output: output + output.mean(1, keepdim=True)
    )
    with gated(model, gates, heads):
        expected = model(**batch).logits
    with restarting(model, heads) as restart:
        model(**batch)
        restart.changed(0)
        with gated(model, gates, heads):
            assert torch.equal(model(**batch).logits, expected)


@torch.no_grad()
def test_texts_of_one_token_decide_nothing_for_longer_ones(zoo):
    model, batch = Pooled(zoo.model("bert")), zoo.batch("bert")
    heads, gates = HeadMap.of(model), torch.arange(12) != 3
    with gated(model, gates, heads):
        expected = model(**batch).logits
    with restarting(model, heads) as restart:
        for _ in range(2):
            model(**{name: value[:, :1] for name, value in batch.items()})
            model(**batch)
        restart.changed(0)
        with gated(model, gates, heads):
            assert torch.equal(model(**batch).logits, expected)


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
    with restarting(model, HeadMap.of(model)):
        for view in (ids[:, :1], ids[:1, ::2], ids[:, :2].T):
            expected = model(input_ids=view.clone()).logits
            zoo.assert_close(model(input_ids=view).logits, expected)


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


def test_blocks_of_what_is_no_stack(zoo):
    for family in IN_FULL:
        model = zoo.model(family)
        assert find_blocks(model, HeadMap.of(model)) == []
