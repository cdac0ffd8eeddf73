"""What a method answers: the same for the same texts and seed, on every kind of model, and no NaN in silence."""

from __future__ import annotations

import re
from dataclasses import replace

import torch
from torch import Tensor

from methods import View
from methods.checks.case import TINY, Failure, NotApplicable, Scene, Subject, check
from methods.checks.compare import CLOSE, ROUGH, complete, ranked_alike, same
from methods.checks.process import seed_everything
from methods.contract.schedule import NonFiniteScore
from methods.heads import gated, remove_heads


@check()
def an_answer_for_every_budget(subject: Subject, scene: Scene) -> None:
    """Each number of heads removed, 0 to all, is met exactly; a scorer's head that is gone stays gone."""
    view = scene.view()
    units = len(view.heads)
    levels = list(range(units + 1))
    chosen = subject.select(view, levels)
    if chosen.masks.all() and any(choice.neurons for choice in chosen.choices[0]):
        raise NotApplicable("removes neurons alone")
    for draw, order in enumerate(chosen.orders or []):
        if sorted(order) != list(range(units)):
            raise Failure(f"removal order {order} of draw {draw} does not have each of {units} units once")
    for draw, masks in enumerate(chosen.masks):
        gone = (~masks).sum(1).tolist()
        if gone != levels and not subject.method.control:
            raise Failure(f"draw {draw} removes {gone} units where {levels} were asked for")
        back = (masks[1:] & ~masks[:-1]).nonzero().tolist()
        if chosen.orders and back:
            level, unit = back[0]
            raise Failure(f"{view.heads.name(unit)} is back when {level + 1} units are removed")


@check()
def the_same_for_a_seed(subject: Subject, scene: Scene) -> None:
    """The same seed gives the same choices, whatever state the global random generators are in."""
    found = []
    for global_seed in (1, 2):
        seed_everything(global_seed)
        found.append(subject.select(scene.view(seed=3), [0, 2, 3]))
    first, second = found
    view = scene.view()
    for draw, (one, other) in enumerate(zip(first.choices, second.choices, strict=True)):
        for a, b in zip(one, other, strict=True):
            if unit := (a.mask != b.mask).nonzero().tolist():
                said = f"{view.heads.name(unit[0][0])} is kept by one run and not by the other"
                raise Failure(
                    f"{said}, with {a.removed} units removed, draw {draw}: take all draws from view.generator"
                )
            others = b.neurons or {}
            changed = [name for name, mask in (a.neurons or {}).items() if not torch.equal(mask, others[name])]
            if subject.method.shape == "joint":
                new = b.model.state_dict()
                changed += [name for name, old in a.model.state_dict().items() if not torch.equal(old, new[name])]
            if changed:
                said = f"{changed[0]} differs between two runs, with {a.removed} units removed, draw {draw}"
                raise Failure(f"{said}: take all draws from view.generator")
    if first.orders != second.orders:
        raise Failure(f"removal orders of two runs: {first.orders} and {second.orders}")


@check("scorer", "selector", otherwise="a joint method trains on batches as they come", once=True)
def padding_and_batches_do_not_matter(subject: Subject, scene: Scene) -> None:
    """Texts one by one, in one batch, with more padding, in another order: the same answer."""
    if subject.batch_dependent:
        raise NotApplicable("depends on the batch by its definition")
    texts = TINY.sentences(7, count=5)
    side = scene.padding
    ways = {
        "in one batch": [TINY.batch(texts, side)],
        "in one batch, with more padding": [TINY.batch(texts, side, extra=5)],
        "in two batches, in another order": [TINY.batch(texts[3:], side, extra=1), TINY.batch(texts[:3], side)],
    }
    alone = scene.view(batches=TINY.alone(texts))
    expected = subject.answer(alone)
    for way, batches in ways.items():
        same(alone, expected, subject.answer(scene.view(batches=batches)), CLOSE, f"{way}, against one by one")


@check(once=True)
def a_layer_may_be_without_heads(subject: Subject, scene: Scene) -> None:
    """An answer also where a layer has lost all heads; a scorer ranks the others alike, by gates or for good."""
    view = scene.view(seed=2)
    scores = subject.method.shape == "scorer"
    if len(view.heads.sites) == 1 and not scores:
        raise NotApplicable("the layers share one set of heads, and without them there is nothing to choose")
    for layer, site in enumerate(view.heads.sites):
        where = f"{site.name} without heads"
        kept = view.heads.site_of_unit != layer
        if scores:
            with gated(view.model, kept, view.heads):
                answer, draws = _asked(subject, replace(view, kept=kept))
            complete(view, answer, where, kept)
        if kept.any():
            smaller = scene.on(view, remove_heads(view.model, kept, view.heads))
            shorter = subject.answer(smaller)
            complete(smaller, shorter, where)
            if scores and not draws:
                left = {name: values[..., kept] if name == "units" else values for name, values in answer.items()}
                ranked_alike(smaller, left, shorter, where)


@check("scorer", otherwise="only a scorer has a schedule", once=True)
def greedy_scores_what_is_left(subject: Subject, scene: Scene) -> None:
    """Under a greedy schedule the least important heads left go first, by the score of the model without the others."""
    view = scene.view(seed=4)
    answer, draws = _asked(subject, view)
    if answer.keys() != {"units"}:
        raise NotApplicable("ranks neurons too, which a greedy schedule does not remove")
    if answer["units"].dim() > 1 and len(answer["units"]) > 1:
        raise NotApplicable("several draws, of which a greedy schedule could follow only one")
    if draws:
        raise NotApplicable("draws at random")
    plan = {"recompute": 2, "inverse": False, "allocation": "global"}
    (order,) = subject.select(view, [], **plan).orders or [[]]
    kept = view.heads.full_mask()
    for step, units in enumerate(torch.tensor(order).split(2)):
        rest = kept.index_fill(0, units, False)
        if not rest.any():
            return
        with gated(view.model, kept, view.heads):
            scores = subject.answer(replace(view, kept=kept))["units"].double().flatten()
        gone, stays = units[scores[units].argmax()], scores.masked_fill(~rest, torch.inf).argmin()
        if scores[gone] - scores[stays] > CLOSE * scores[kept].abs().max():
            raise Failure(
                f"step {step + 1} removes {view.heads.name(int(gone))} ({scores[gone]:.5g}) before "
                f"{view.heads.name(int(stays))} ({scores[stays]:.5g}), by the scores of the model as it is then"
            )
        kept = rest


@check(once=True)
def works_in_bfloat16(subject: Subject, scene: Scene) -> None:
    """On a model in bfloat16 every importance is finite, and much what it is in float32."""
    view = scene.view(seed=5, dtype=torch.bfloat16)
    answer = subject.answer(view)
    complete(view, answer, "bfloat16")
    if subject.method.shape == "scorer":
        same(view, subject.answer(scene.view(seed=5)), answer, ROUGH, "bfloat16 against float32")


@check(once=True)
def works_on_cuda(subject: Subject, scene: Scene) -> None:
    """On a GPU the same answer as on the CPU."""
    if not torch.cuda.is_available():
        raise NotApplicable("no CUDA device")
    view = scene.view(seed=5, device="cuda")
    answer = subject.answer(view)
    complete(view, answer, "CUDA")
    if subject.method.shape != "joint":  # the random numbers of dropout are others there
        same(view, subject.answer(scene.view(seed=5)), answer, CLOSE, "CUDA against CPU")


@check(once=True)
def a_nan_is_never_silent(subject: Subject, scene: Scene) -> None:
    """A weight that is NaN or infinite is an error, by head for a score, or is nothing that the method looks at."""
    expected = subject.answer(scene.view())
    for value in (torch.nan, torch.inf):
        view = scene.view()
        query = view.model.get_submodule(view.heads.sites[0].projections["query"])
        with torch.no_grad():
            next(query.parameters())[0, 0] = value
        where = f"with a weight of {view.heads.sites[0].projections['query']} {value}"
        try:
            subject.select(view, [1])
        except NonFiniteScore as error:
            if not re.match(
                rf"method {re.escape(subject.method.name)}: importance \S+ for (head|neuron) \d", str(error)
            ):
                raise Failure(f"{where}, the error names no method and head: {error}") from error
        except (ArithmeticError, ValueError):
            pass
        else:
            found = subject.answer(scene.on(scene.view(), view.model))
            if any(not torch.equal(found[name], values) for name, values in expected.items()):
                raise Failure(
                    f"{where} the answer is finite but another: leave NaN and infinity in the importance, "
                    "and the run will name the head"
                )


def _asked(subject: Subject, view: View) -> tuple[dict[str, Tensor], bool]:
    """The answer, and whether the method took random draws for it."""
    before = view.generator.get_state()
    answer = subject.answer(view)
    return answer, not torch.equal(before, view.generator.get_state())
