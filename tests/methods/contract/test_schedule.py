"""Removal orders from importances alone: ranking, ties, direction and allocation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.contract.schedule import Importance, NonFiniteScore, Schedule, Trajectory, trajectories
from methods.heads import find_mlps, remove_heads, remove_neurons

FEW = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0])  # few values, so that there are ties
VALUE = st.one_of(FEW, st.floats(-1e30, 1e30))


@pytest.fixture(scope="module")
def equal(tiny):
    """Two layers of 4 units."""
    return tiny.view(tiny.model("bert"), [])


@pytest.fixture(scope="module")
def unequal(tiny):
    """Layers of 4, 1 and 2 units."""
    smaller = remove_heads(tiny.model("bert", layers=3), torch.tensor([1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0]).bool())
    view = tiny.view(smaller, [])
    assert view.heads.shape == (4, 1, 2)
    return view


def order(view, scores, **plan):
    (result,) = trajectories(lambda view: torch.tensor(scores, dtype=torch.float64), view, Schedule(**plan))
    return result.order.tolist()


@given(scores=st.lists(VALUE, min_size=8, max_size=8), inverse=st.booleans())
def test_one_shot_sorts_and_ties_go_by_index(equal, scores, inverse):
    sign = -1 if inverse else 1
    assert order(equal, scores, inverse=inverse) == sorted(range(8), key=lambda unit: (sign * scores[unit], unit))


@given(scores=st.lists(VALUE, min_size=8, max_size=8, unique=True))
def test_inverse_reverses(equal, scores):
    assert order(equal, scores, inverse=True) == order(equal, scores)[::-1]


def normed(view, scores):
    """Scores over the root of the sum of squares of their layer's, in plain Python."""
    sites = [unit.site for unit in view.heads.units]
    lengths = {site: math.hypot(*(s for s, own in zip(scores, sites, strict=True) if own == site)) for site in sites}
    return [score / lengths[site] if lengths[site] else 0.0 for score, site in zip(scores, sites, strict=True)]


@given(scores=st.lists(st.integers(-9, 9), min_size=7, max_size=7), inverse=st.booleans())
def test_the_norm_of_a_layer_divides_its_scores(unequal, scores, inverse):
    plan = Schedule(layer_norm=True, inverse=inverse)
    (path,) = trajectories(lambda view: torch.tensor(scores, dtype=torch.float64), unequal, plan)
    torch.testing.assert_close(path.scores[0].tolist(), normed(unequal, scores))
    ranked = path.scores[0][path.order].tolist()
    assert ranked == sorted(ranked, reverse=inverse)


def test_the_norm_leaves_out_units_that_are_gone(equal):
    kept = torch.tensor([1, 1, 0, 0, 1, 0, 0, 1]).bool()
    scores = torch.tensor([3.0, 4.0, math.nan, 9.0, 5.0, 9.0, math.inf, 12.0])
    (path,) = trajectories(lambda view: scores, replace(equal, kept=kept), Schedule(layer_norm=True))
    torch.testing.assert_close(path.scores[0][kept].tolist(), [3 / 5, 4 / 5, 5 / 13, 12 / 13])


@given(scores=st.lists(st.integers(1, 99), min_size=8, max_size=8, unique=True))
def test_within_a_layer_the_norm_changes_no_order(equal, scores):
    sites = [unit.site for unit in equal.heads.units]
    plain, divided = (order(equal, scores, layer_norm=norm) for norm in (False, True))
    for site in set(sites):
        assert [unit for unit in plain if sites[unit] == site] == [unit for unit in divided if sites[unit] == site]


@pytest.mark.parametrize(("recompute", "applies"), [(0, True), (1, False)])
def test_auto_divides_where_units_are_scored_once(equal, recompute, applies):
    scores = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]

    def score(view):
        return torch.tensor([scores[4 * unit.site + unit.heads[0]] for unit in view.heads.units])

    found = {
        norm: trajectories(score, equal, Schedule(recompute=recompute, layer_norm=norm))[0].scores[0]
        for norm in ("auto", True, False)
    }
    assert torch.equal(found["auto"], found[applies]) and not torch.equal(found[True], found[False])


def slow_layer_order(view, scores, inverse):
    """Again and again: of the layers with most units left, remove the least important unit of them all."""
    sites = [unit.site for unit in view.heads.units]
    left, removed = set(range(len(sites))), []
    while left:
        counts = {site: sum(sites[unit] == site for unit in left) for site in sites}
        fullest = [unit for unit in left if counts[sites[unit]] == max(counts.values())]
        removed.append(min(fullest, key=lambda unit: (-scores[unit] if inverse else scores[unit], unit)))
        left.remove(removed[-1])
    return removed


def slow_ties(view, scores, **plan):
    """Again and again: are two or more of the units that may go next equally unimportant?"""
    sign, sites = -1 if plan.get("inverse") else 1, [unit.site for unit in view.heads.units]
    found, left = 0, set(range(len(sites)))
    for unit in order(view, scores, **plan):
        counts = {site: sum(sites[other] == site for other in left) for site in sites}
        by_layer = plan.get("allocation") == "layer"
        may_go = [sign * scores[o] for o in left if not by_layer or counts[sites[o]] == max(counts.values())]
        assert sign * scores[unit] == min(may_go)
        found += may_go.count(min(may_go)) > 1
        left.remove(unit)
    return found


@given(
    data=st.data(),
    plan=st.fixed_dictionaries({"inverse": st.booleans(), "allocation": st.sampled_from(["global", "layer"])}),
    recompute=st.integers(0, 8),
    which=st.sampled_from(["equal", "unequal"]),
)
def test_ties_are_choices_between_equal_scores(equal, unequal, data, plan, recompute, which):
    view = {"equal": equal, "unequal": unequal}[which]
    units = len(view.heads)
    scores = data.draw(st.lists(FEW | st.floats(-9, 9, width=32), min_size=units, max_size=units))
    plant(view, scores)
    (path,) = trajectories(planted, view, Schedule(recompute=recompute, **plan))
    assert path.ties == slow_ties(view, scores, **plan)


def test_ties_are_those_of_each_draw(equal):
    scores = torch.stack([torch.arange(8.0), torch.zeros(8), torch.arange(8) // 2.0])
    assert [path.ties for path in trajectories(lambda _: scores, equal, Schedule())] == [0, 7, 4]


@given(data=st.data(), inverse=st.booleans(), which=st.sampled_from(["equal", "unequal"]))
def test_allocation_by_layer_takes_equally(equal, unequal, data, inverse, which):
    view = {"equal": equal, "unequal": unequal}[which]
    sites = view.heads.site_of_unit
    scores = data.draw(st.lists(VALUE, min_size=len(sites), max_size=len(sites)))
    actual = order(view, scores, inverse=inverse, allocation="layer")
    assert actual == slow_layer_order(view, scores, inverse)
    for prefix in range(len(sites) + 1):
        taken = torch.bincount(sites[actual[:prefix]], minlength=len(view.heads.shape))
        if which == "equal":
            assert taken.max() - taken.min() <= 1
    for site in range(len(view.heads.shape)):
        ranked = order(view, scores, inverse=inverse)
        assert [unit for unit in actual if sites[unit] == site] == [unit for unit in ranked if sites[unit] == site]


def weights_of(view):
    """For each unit, one weight of the output projection that reads its first head, and is removed with it."""
    for unit in view.heads.units:
        site = view.heads.sites[unit.site]
        yield view.model.get_submodule(site.output).weight[0, unit.heads[0] * site.head_dim]


def plant(view, scores):
    """Store scores in weights that are removed with their heads."""
    for weight, score in zip(weights_of(view), scores, strict=True):
        weight.data.fill_(score)


def planted(view):
    return torch.stack(list(weights_of(view)))


@given(
    scores=st.lists(FEW, min_size=8, max_size=8),
    plan=st.fixed_dictionaries(
        {"recompute": st.integers(1, 9), "inverse": st.booleans(), "allocation": st.sampled_from(["global", "layer"])}
    ),
)
def test_greedy_on_scores_that_never_change_is_one_shot(equal, scores, plan):
    plant(equal, scores)
    (actual,) = trajectories(planted, equal, Schedule(**plan))
    assert actual.order.tolist() == order(equal, scores, **(plan | {"recompute": 0}))


@given(removed=st.integers(0, 8), seed=st.integers(0, 99))
def test_units_kept_are_those_not_yet_removed(removed, seed):
    permutation = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
    mask = Trajectory(permutation).units_kept(removed, 8)
    assert mask.dtype == torch.bool
    assert set(mask.nonzero().flatten().tolist()) == set(permutation[removed:].tolist())


def test_every_draw_has_its_order(equal):
    scores = torch.rand(3, 8)
    orders = trajectories(lambda view: scores, equal, Schedule())
    assert [result.order.tolist() for result in orders] == [row.argsort().tolist() for row in scores]


@pytest.mark.parametrize("recompute", [0, 1])
@pytest.mark.parametrize("shape", [(), (7,), (16,), (0, 8), (8, 2), (2, 2, 8)])
def test_scores_of_a_wrong_shape_are_refused(equal, recompute, shape):
    with pytest.raises(ValueError, match=r"expected \(8,\): one entry per unit"):
        trajectories(lambda view: torch.zeros(shape), equal, Schedule(recompute=recompute))


def test_greedy_follows_one_draw(equal):
    plan = Schedule(recompute=1)
    plant(equal, range(8))
    assert trajectories(lambda view: planted(view)[None], equal, plan)[0].order.tolist() == list(range(8))
    with pytest.raises(ValueError, match=r"one draw, importances of shape \(units,\), not 2"):
        trajectories(lambda view: torch.rand(2, 8), equal, plan)


@pytest.mark.parametrize("recompute", [0, 1])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_head_with_a_nan_is_named(equal, tiny, recompute, value):
    scores = torch.zeros(8)
    scores[6] = value
    with pytest.raises(NonFiniteScore, match=rf"importance {value} for head 2 of bert.encoder.layer.1.attention.*\(1 "):
        trajectories(lambda view: scores, equal, Schedule(recompute=recompute))
    grouped = tiny.view(tiny.model("llama"), [])
    with pytest.raises(NonFiniteScore, match=r"head 2, 3 of model\.layers\.0\.self_attn"):
        trajectories(lambda view: torch.tensor([0.0, value, 0.0, 0.0]), grouped, Schedule(recompute=recompute))


@pytest.mark.parametrize("recompute", [0, 1])
def test_units_already_removed_are_in_no_order(equal, recompute):
    """Their scores may be anything."""
    kept = torch.tensor([1, 0, 1, 1, 0, 1, 0, 1]).bool()
    plant(equal, range(8))
    view = replace(equal, kept=kept)
    (result,) = trajectories(lambda view: planted(view).where(view.kept, math.nan), view, Schedule(recompute=recompute))
    assert result.order.tolist() == kept.nonzero().flatten().tolist()


def test_heads_are_named_by_their_index_in_the_whole_model(equal):
    plant(equal, range(8))

    def fails_late(view):
        scores = planted(view)
        return scores.where((scores != 5) | (len(scores) > 4), math.nan)

    with pytest.raises(NonFiniteScore, match=r"importance nan for head 1 of bert.encoder.layer.1.attention"):
        trajectories(fails_late, equal, Schedule(recompute=1))


@pytest.mark.parametrize("plan", [{}, {"inverse": True}, {"allocation": "layer"}])
def test_many_ties_go_by_index(tiny, plan):
    """More than 16 units: up to that number, any sort happens to be stable."""
    many = tiny.view(tiny.model("bert", layers=8), [])
    actual = order(many, [0.0] * 32, **plan)
    assert actual == (slow_layer_order(many, [0.0] * 32, False) if plan.get("allocation") else list(range(32)))


@given(width=st.integers(1, 12), removed=st.integers(0, 8), seed=st.integers(0, 99), inverse=st.booleans())
def test_every_layer_loses_the_same_share_of_its_neurons(equal, width, removed, seed, inverse):
    first, second = (mlp.name for mlp in find_mlps(equal.model))
    whole = width_of(equal)
    model = remove_neurons(equal.model, {first: range(width), second: range(whole)})
    draw = torch.Generator().manual_seed(seed)
    scores = {first: torch.rand(width, generator=draw), second: torch.rand(whole, generator=draw)}
    importance = Importance(torch.arange(8.0), scores)
    (result,) = trajectories(lambda view: importance, replace(equal, model=model), Schedule(inverse=inverse))
    assert result.units_kept(removed, 8).sum() == 8 - removed
    kept = result.neurons_kept(removed, 8)
    for name, mask in kept.items():
        gone = math.floor(len(mask) * removed / 8 + 0.5)
        assert (~mask).sum() == gone
        worst = scores[name].argsort(descending=inverse)[:gone]
        assert not mask[worst].any()


def neurons(view, scores):
    """The same scores for every feed-forward layer."""
    return {mlp.name: scores for mlp in find_mlps(view.model)}


def width_of(view):
    """Neurons of its feed-forward layers, which all have as many."""
    return find_mlps(view.model)[0].width


def test_neurons_alone_leave_every_head(equal):
    (result,) = trajectories(
        lambda view: Importance(None, neurons(view, torch.rand(width_of(view)))), equal, Schedule()
    )
    assert result.units_kept(8, 8).all() and not any(kept.any() for kept in result.neurons_kept(8, 8).values())
    assert Trajectory(torch.arange(8)).neurons_kept(4, 8) is None


def test_draws_of_units_and_of_neurons_go_together(equal):
    units, widths = torch.rand(3, 8), torch.rand(3, width_of(equal))
    results = trajectories(lambda view: Importance(units, neurons(view, widths)), equal, Schedule())
    for draw, result in enumerate(results):
        assert result.order.tolist() == units[draw].argsort().tolist()
        assert all(order.tolist() == widths[draw].argsort().tolist() for order in result.neurons.values())
    with pytest.raises(ValueError, match="different numbers of draws"):
        trajectories(lambda view: Importance(units, neurons(view, widths[:2])), equal, Schedule())


def test_invalid_importances_are_refused(equal):
    with pytest.raises(ValueError, match="neither units nor neurons"):
        trajectories(lambda view: Importance(None), equal, Schedule())
    with pytest.raises(ValueError, match="removes heads only"):
        trajectories(lambda view: Importance(torch.rand(8)), equal, Schedule(recompute=1))
    missing = torch.zeros(width_of(equal)).index_fill(0, torch.tensor([1]), math.nan)
    with pytest.raises(NonFiniteScore, match=r"neuron 1 of bert\.encoder\.layer\.0"):
        trajectories(lambda view: Importance(None, neurons(view, missing)), equal, Schedule())
    for names in [], ["bert.encoder.layer.0"], ["bert.encoder.layer.0", "bert.encoder.layer.1", "other"]:
        with pytest.raises(ValueError, match="importances of neurons must list every feed-forward layer and no other"):
            trajectories(
                lambda view, names=names: Importance(None, dict.fromkeys(names, torch.rand(4))), equal, Schedule()
            )


@pytest.mark.parametrize("recompute", [0, 1, 3])
def test_scores_are_kept_as_they_were_given(equal, recompute):
    """One row per scoring, by units of the whole model; NaN for removed units."""
    given = []

    def score(view):
        given.append(torch.rand(len(view.heads), dtype=torch.float64))
        return given[-1]

    (path,) = trajectories(score, equal, Schedule(recompute=recompute))
    assert len(path.scores) == len(given)
    for place, (row, found) in enumerate(zip(path.scores, given, strict=True)):
        gone = path.order[: place * recompute]
        assert row.isnan().nonzero().flatten().tolist() == sorted(gone.tolist())
        assert torch.equal(row[~row.isnan()], found)


def test_every_draw_has_its_scores(equal):
    given = torch.rand(3, 8, dtype=torch.float64)
    assert torch.equal(
        torch.stack([path.scores[0] for path in trajectories(lambda _: given, equal, Schedule())]), given
    )
