"""A map of some kinds of attention: their heads go as with the map of all, and other attention stays as it is."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest
import torch

from methods import METHODS, Importance
from methods.contract.choice import Choice
from methods.contract.schedule import Schedule, trajectories
from methods.heads import HeadMap, UnsupportedArchitecture, gated, observed, remove_heads, restarting
from methods.heads.finding.head_map import KINDS
from methods.heads.surgery.shrink import shrink, working_copy
from methods.michel import michel
from methods.recovery.recover import recover
from tests.fixtures.slow import slow_cases
from tests.methods.translating import translating

TRANSLATORS = ("bart", "t5", "bert-to-gpt2")
# Methods that score each unit on its own.
LOCAL = (
    *("michel", "fisher", "tis", "gnorm", "magnitude", "ae", "amp-heads", "wanda-sp", "leave-one-out", "obs"),
    *slow_cases("attr"),
)
SOME = [*combinations(KINDS, 1), *slow_cases(*((kinds,) for kinds in combinations(KINDS, 2)))]


def in_full(some: HeadMap, mask: torch.Tensor, every: HeadMap) -> torch.Tensor:
    """The mask of ``every`` unit that keeps what ``mask`` keeps of ``some``, and all others."""
    return every.mask(every.kept(every.full_mask()) | some.kept(mask))


@pytest.mark.parametrize("kinds", SOME)
@pytest.mark.parametrize("translator", TRANSLATORS)
def test_gated_and_removed_are_those_of_the_map_of_all(zoo, translator, kinds):
    model, batch = zoo.model(translator), zoo.batch(translator)
    some, every = HeadMap.of(model, kinds=kinds), HeadMap.of(model)
    assert {site.kind for site in some.sites} == set(kinds) and len(some) < len(every)
    for name, mask in zoo.masks(some).items():
        with torch.no_grad():
            with gated(model, in_full(some, mask, every), every):
                expected = model(**batch).logits
            with gated(model, mask, some):
                torch.testing.assert_close(model(**batch).logits, expected)
            zoo.assert_close(remove_heads(model, mask, some)(**batch).logits, expected, what=name)
            smaller = working_copy(model)
            left = shrink(smaller, mask | (torch.arange(len(some)) % 2 == 0), some)
            left = shrink(smaller, left.full_mask() & mask[mask | (torch.arange(len(some)) % 2 == 0)], left)
            zoo.assert_close(smaller(**batch).logits, expected, what=name)
        assert HeadMap.of(smaller, kinds=kinds) == left
        left.check_model(smaller)


@pytest.mark.parametrize("translator", TRANSLATORS)
def test_only_sites_of_the_map_are_observed(zoo, translator):
    model, batch = zoo.model(translator, attention="eager"), zoo.batch(translator)
    cross, every = HeadMap.of(model, kinds=["cross"]), HeadMap.of(model)
    seen, expected = [], []
    for heads, to in ((cross, seen), (every, expected)):
        with torch.no_grad(), observed(model, heads, attention=lambda site, rows, to=to: to.append((site, rows))):
            model(**batch)
    named = {every.sites[site].name: rows for site, rows in expected if every.sites[site].kind == "cross"}
    assert [cross.sites[site].name for site, _ in seen] == list(named)
    for site, rows in seen:
        torch.testing.assert_close(rows, named[cross.sites[site].name])


@pytest.mark.parametrize("kinds", [("encoder",), ("decoder",), ("cross",)])
def test_a_kind_is_no_plain_stack_of_blocks(kinds):
    """Blocks of an encoder-decoder do not run again on their own, and those of other kinds are recovered by passes."""
    view, _ = translating("marian", 0, kinds)
    units = [0, 1]
    with torch.no_grad(), restarting(view.model, view.heads) as restart:
        inputs = {name: values for name, values in view.batches[0].inputs.items() if name != "targets"}
        view.model(**inputs)
        with restart.without(units):
            found = view.model(**{name: torch.cat([values] * 2) for name, values in inputs.items()}).logits.chunk(2)
    for unit, logits in zip(units, found, strict=True):
        with torch.no_grad(), gated(view.model, torch.arange(len(view.heads)) != unit, view.heads):
            torch.testing.assert_close(view.model(**inputs).logits, logits, rtol=1e-4, atol=1e-5)
    mask = torch.arange(len(view.heads)) % 2 == 0
    choice = recover(view, Choice(view.model, view.heads, mask), "lstsq", guarded=False).choice
    changed = {
        name
        for name, weight in view.model.named_parameters()
        if not torch.equal(weight, choice.model.get_parameter(name))
    }
    outputs = {f"{site.output}.{part}" for site in view.heads.sites for part in ("weight", "bias")}
    assert changed and changed <= outputs


@pytest.mark.parametrize("name", LOCAL)
def test_a_score_of_a_unit_does_not_depend_on_units_of_other_kinds(name):
    some, _ = translating("t5", 0, ("encoder", "cross"))
    every, _ = translating("t5", 0)
    method = METHODS[name]
    fields = {field.name for field in dataclasses.fields(Schedule)}
    own = {key: value for key, value in method.configure({}).items() if key not in fields}
    wanted = torch.tensor([every.heads.sites[unit.site].kind != "decoder" for unit in every.heads.units])
    scores = [method.function(view, **own) for view in (some, every)]
    found, expected = (score.units if isinstance(score, Importance) else score for score in scores)
    torch.testing.assert_close(found, expected[wanted])


def test_a_greedy_order_goes_through_the_units_of_the_map():
    view, _ = translating("t5", 0, ("decoder", "cross"))
    (path,) = trajectories(michel, view, Schedule(recompute=3))
    assert sorted(path.order.tolist()) == list(range(16))


def test_kinds_that_are_not_there_are_refused_and_all_are_as_none(zoo):
    bert, bart = zoo.model("bert"), zoo.model("bart")
    with pytest.raises(UnsupportedArchitecture, match="BertForSequenceClassification has no cross attention, only enc"):
        HeadMap.of(bert, kinds=("encoder", "cross"))
    with pytest.raises(ValueError, match="kinds must be of encoder, decoder, cross, not 'self'"):
        HeadMap.of(bart, kinds=("self",))
    assert HeadMap.of(bert, kinds=("encoder",)) == HeadMap.of(bert)
    assert HeadMap.of(bart, kinds=KINDS[::-1]) == HeadMap.of(bart)
    assert HeadMap.of(bart, kinds=("cross", "encoder")) == HeadMap.of(bart, kinds=("encoder", "cross"))
    with pytest.raises(ValueError, match="not of this"):
        HeadMap.of(bart, kinds=("cross",)).check_model(bert)
