"""What a method returns: complete, reproducible, and independent of how texts are batched and heads were removed."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from methods import OptionError, View
from methods.checks.case import ConfiguredMethod, Failure, NotApplicable, check
from methods.checks.compare import CLOSE, bits, check_close, check_complete, check_same_ranking
from methods.checks.isolation import seed_everything
from methods.checks.tiny_models import TINY, TinyModel, with_model
from methods.contract.choice import Choice
from methods.heads import gated, remove_heads


@check()
def every_budget_is_met(configured: ConfiguredMethod, on: TinyModel) -> None:
    """Any number of units can be removed, from none to all; a scorer never brings back a head that was removed."""
    view = on.view()
    units = len(view.heads)
    levels = list(range(units + 1))
    selection = configured.select(view, levels)
    for draw, order in enumerate(selection.orders or []):
        if sorted(order) != list(range(units)):
            raise Failure(f"removal order {order} of draw {draw} does not list each of the {units} units once")
    for draw, choices in enumerate(selection.choices):
        masks = torch.stack([choice.mask for choice in choices])
        removed = (~masks).sum(1).tolist()
        neurons_alone = masks.all() and any(choice.neurons for choice in choices)
        splits = configured.method.splits_budget(configured.options)
        if removed != levels and not neurons_alone and not splits and not configured.method.control:
            raise Failure(f"draw {draw} removes {removed} units, expected {levels}")
        back = (masks[1:] & ~masks[:-1]).nonzero().tolist()
        if selection.orders and back:
            level, unit = back[0]
            raise Failure(f"{view.heads.name(unit)} is kept again when {level + 1} units are removed")
        for level, choice in zip(levels, choices, strict=True):
            if not splits:
                _check_neurons(choice, level, units)


def _check_neurons(choice: Choice, removed: int, units: int) -> None:
    """Raises Failure unless every layer loses the same share of its neurons as the model of its units, rounded."""
    for name, mask in (choice.neurons or {}).items():
        share = 1 - removed / units
        if abs(int(mask.sum()) - share * len(mask)) >= 1:
            raise Failure(f"{int(mask.sum())} of {len(mask)} neurons of {name} are kept, expected a share of {share:g}")


def _chooses_a_number(configured: ConfiguredMethod, on: TinyModel) -> bool:
    return configured.method.own_number is not None


@check("selector", applies=_chooses_a_number, ignores_schedule=True)
def own_number_is_a_budget(configured: ConfiguredMethod, on: TinyModel) -> None:
    """The number of units that a method keeps if it is given no budget is one that can be kept, and always the same."""
    own_number = configured.method.own_number
    assert own_number is not None
    first, again = (own_number(on.view(seed=3)) for _ in range(2))
    units = len(on.view().heads)
    if type(first) is not int or not 0 <= first <= units:
        raise Failure(f"own_number gives {first!r}, expected a whole number from 0 to {units}")
    if first != again:
        raise Failure(f"own_number gives {first} and {again} in two equal runs: take random draws from view.generator")


@check()
def same_seed_same_result(configured: ConfiguredMethod, on: TinyModel) -> None:
    """The same seed gives the same result, whatever the global random generators."""
    selections = []
    for global_seed in (1, 2):
        seed_everything(global_seed)
        selections.append(configured.select(on.view(seed=3), [0, 2, 3]))
    first, second = selections
    view = on.view()
    for draw, (choices, others) in enumerate(zip(first.choices, second.choices, strict=True)):
        for a, b in zip(choices, others, strict=True):
            where = f"with {a.removed} units removed, draw {draw}: take all random draws from view.generator"
            if unit := (a.mask != b.mask).nonzero().tolist():
                raise Failure(f"{view.heads.name(unit[0][0])} is kept in one of two equal runs only, {where}")
            neurons = b.neurons or {}
            changed = [name for name, mask in (a.neurons or {}).items() if not torch.equal(mask, neurons[name])]
            if configured.method.shape == "joint":
                weights = b.model.state_dict()
                changed += [name for name, old in a.model.state_dict().items() if bits(old) != bits(weights[name])]
            if changed:
                raise Failure(f"{changed[0]} differs between two equal runs, {where}")
    if first.orders != second.orders:
        raise Failure(f"removal orders of two equal runs differ: {first.orders} and {second.orders}")


@check("scorer", "selector", ignores_schedule=True)  # a joint method trains on batches in their order
def padding_and_batching_do_not_matter(configured: ConfiguredMethod, on: TinyModel) -> None:
    """Texts one at a time, in one batch, with more padding or in another order give the same result."""
    if configured.batch_dependent:
        raise NotApplicable("depends on the batch by definition")
    texts = TINY.sentences(7, count=5)
    side = on.padding
    batchings = {
        "in one batch": [TINY.batch(texts, side)],
        "in one batch, with more padding": [TINY.batch(texts, side, extra=5)],
        "in two batches, in another order": [TINY.batch(texts[3:], side, extra=1), TINY.batch(texts[:3], side)],
    }
    alone = on.view(batches=TINY.alone(texts))
    expected = configured.result(alone)
    for name, batches in batchings.items():
        found = configured.result(on.view(batches=batches))
        check_close(alone, expected, found, CLOSE, f"texts {name} against one at a time")


def _keeps_other_heads(configured: ConfiguredMethod, on: TinyModel) -> bool:
    """Not for tied layers: with the heads of one, all are gone, and only a scorer has something to return."""
    return configured.method.shape == "scorer" or not on.tied


@check(applies=_keeps_other_heads, ignores_schedule=True)
def layers_may_have_no_heads(configured: ConfiguredMethod, on: TinyModel) -> None:
    """A layer may have lost all its heads; a scorer ranks the others alike with those gated to zero and removed."""
    view = on.view(seed=2)
    scores = configured.method.shape == "scorer"
    for layer, site in enumerate(view.heads.sites):
        where = f"{site.name} without heads"
        kept = view.heads.site_of_unit != layer
        if scores:
            with gated(view.model, kept, view.heads):
                result, draws = _result_and_draws(configured, replace(view, kept=kept))
            check_complete(view, result, where, kept)
        if kept.any():
            smaller = with_model(view, remove_heads(view.model, kept, view.heads))
            after = configured.result(smaller)
            check_complete(smaller, after, where)
            if scores and not draws:
                left = {name: values[..., kept] if name == "units" else values for name, values in result.items()}
                check_same_ranking(smaller, left, after, where)


@check("scorer", ignores_schedule=True)
def greedy_scores_what_is_left(configured: ConfiguredMethod, on: TinyModel) -> None:
    """A greedy schedule removes the units with the lowest scores on the model as it is then, or is refused."""
    view = on.view(seed=4)
    result, draws = _result_and_draws(configured, view)
    greedy = {"recompute": 2, "inverse": False, "allocation": "global"}
    rows = max(len(values) if values.dim() > 1 else 1 for values in result.values())
    if rows > 1 and not draws:
        raise Failure(
            f"{rows} rows of importances without any random draw: a run takes each row for a removal order that was "
            "drawn at random, so average over examples and return (units,)"
        )
    if result.keys() != {"units"} or (result["units"].dim() > 1 and len(result["units"]) > 1):
        try:
            configured.select(view, [], **greedy)
        except OptionError:
            return
        raise Failure("a greedy schedule is not refused: it can follow neither neurons nor several draws")
    if draws:
        raise NotApplicable("draws at random, so its scores cannot be computed again")
    (order,) = configured.select(view, [], **greedy).orders or [[]]
    kept = view.heads.full_mask()
    for step, units in enumerate(torch.tensor(order).split(2)):
        rest = kept.index_fill(0, units, False)
        if not rest.any():
            return
        with gated(view.model, kept, view.heads):
            scores = configured.result(replace(view, kept=kept))["units"].double().flatten()
        gone, stays = units[scores[units].argmax()], scores.masked_fill(~rest, torch.inf).argmin()
        if scores[gone] - scores[stays] > CLOSE * scores[kept].abs().max():
            raise Failure(
                f"step {step + 1} removes {view.heads.name(int(gone))} ({scores[gone]:.5g}) before "
                f"{view.heads.name(int(stays))} ({scores[stays]:.5g}), by the scores of the model as it is then"
            )
        kept = rest


def _result_and_draws(configured: ConfiguredMethod, view: View) -> tuple[dict[str, Tensor], bool]:
    """The result, and whether the method drew random numbers for it."""
    before = view.generator.get_state()
    result = configured.result(view)
    return result, not torch.equal(before, view.generator.get_state())
