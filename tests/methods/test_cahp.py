"""CAHP step by step against loops over texts and pixels, and its choice on planted clusters."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.cost import counting
from methods import METHODS
from methods.cahp import cahp, chosen_number, complementary, plane_distances, separability
from methods.contract.choosing import select
from methods.heads import observed
from tests.methods.translating import FAMILIES, translating


def resizing(length):
    """The matrix that resizes ``length`` values to 32 by linear interpolation between the centres of cells."""
    matrix = torch.zeros(32, length, dtype=torch.float64)
    for row in range(32):
        place = min(max((row + 0.5) * length / 32 - 0.5, 0.0), length - 1.0)
        below = math.floor(place)
        matrix[row, below] += 1 - (place - below)
        if place > below:
            matrix[row, below + 1] += place - below
    return matrix


def slow_features(view, texts):
    """By pair of classes: Jeffries-Matusita distances, (units, pixels), from the maps of texts one by one."""
    maps = {}  # by site, call and head, then by class
    for text in texts:
        seen = []
        with (
            torch.no_grad(),
            observed(view.model, view.heads, attention=lambda site, rows, to=seen: to.append((site, rows))),
        ):
            view.logits(text)
        for number, (site, rows) in enumerate(seen):
            for head in range(rows.shape[1]):
                down, across = (resizing(length) for length in rows.shape[2:])
                resized = (down @ rows[0, head].double() @ across.T).flatten()
                maps.setdefault((site, number, head), {}).setdefault(int(text.labels), []).append(resized)
    classes = sorted({int(text.labels) for text in texts})

    def moments(place, label):
        values = torch.stack(maps[place][label])
        return values.mean(0).tolist(), values.var(0, correction=0).tolist()

    def distance(m, s, n, t):
        s, t = max(s, 1e-8), max(t, 1e-8)
        return 2 * (1 - math.exp(-((m - n) ** 2 / (4 * (s + t)) + math.log((s + t) / (2 * math.sqrt(s * t))) / 2)))

    for i, one in enumerate(classes):
        for other in classes[i + 1 :]:
            of_units = []
            for unit in view.heads.units:
                mine = [place for place in maps if place[0] == unit.site and place[2] in unit.heads]
                pixels = [
                    [distance(*each) for each in zip(*moments(place, one), *moments(place, other), strict=True)]
                    for place in mine
                ]
                of_units.append(torch.tensor(pixels, dtype=torch.float64).mean(0))
            yield torch.stack(of_units)


def test_features_are_distances_of_classes_pixel_by_pixel(tiny, architecture):
    sentences = tiny.sentences(3, count=7)
    batches = [tiny.batch(sentences[:3], extra=1), tiny.batch(sentences[3:])]
    view = tiny.view(tiny.model(architecture, 0, torch.float64), batches, tiny.unit(architecture))
    slow = list(slow_features(view, tiny.alone(sentences)))
    found = list(separability(view))
    assert len(found) == len(slow) > 1
    for features, expected in zip(found, slow, strict=True):
        torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-3)  # Llama's softmax is in float32


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_of_cross_attention_have_a_row_for_each_token_of_the_target(family):
    view, pairs = translating(family, 1)
    slow = list(slow_features(view, pairs))
    for features, expected in zip(separability(view), slow, strict=True):
        torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-3)  # maps in float32


def test_texts_of_one_class_are_told_apart_by_maps_themselves(tiny):
    sentences = [(ids, 0) for ids, _ in tiny.sentences(0, shortest=4, longest=4)]
    view = tiny.view(tiny.model("bert", 0, torch.float64), [tiny.batch(sentences)])
    maps = []
    with torch.no_grad(), observed(view.model, view.heads, attention=lambda site, rows: maps.append(rows)):
        view.logits(view.batches[0])
    matrix = resizing(4)
    resized = torch.cat([(matrix @ rows @ matrix.T).flatten(2).transpose(0, 1) for rows in maps])  # (heads, texts, ...)
    means, deviations = separability(view)
    torch.testing.assert_close(means, resized.mean(1))
    torch.testing.assert_close(deviations, resized.std(1, correction=0).clamp_min(1e-4), rtol=1e-4, atol=1e-6)
    for keep in range(len(view.heads) + 1):
        assert cahp(view, keep).sum() == keep


def planted(groups, size, spread=0.01):
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.eye(groups, dtype=torch.float64)
    noise = torch.randn(groups * size, groups, dtype=torch.float64, generator=generator)
    return centres.repeat_interleave(size, 0) + spread * noise


def test_points_near_each_other_stay_together_in_the_plane():
    points = planted(4, 6)
    distances = plane_distances(points @ points.T)
    group = torch.arange(24) // 6
    same = group[:, None] == group
    assert distances[same].max() < distances[~same].min()


def test_where_points_end_does_not_hang_on_rounding():
    points = torch.randn(24, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    noise = torch.randn(24, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    moved = points + 1e-7 * noise
    before, after = plane_distances(points @ points.T), plane_distances(moved @ moved.T)
    assert (before - after).abs().max() < 0.01 * before.max()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points_and_points_all_alike_stay_as_they_are(count):
    points = torch.randn(count, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(plane_distances(points @ points.T), torch.cdist(points, points), rtol=1e-6, atol=1e-6)
    assert not plane_distances(torch.ones(6, 6, dtype=torch.float64)).any()


def test_the_most_important_of_each_cluster_stays():
    points = planted(3, 4)
    importance = torch.tensor([1.0, 9, 2, 3, 4, 1, 8, 2, 7, 1, 2, 3])
    layers = torch.tensor([0, 1, 0, 1] * 3)
    distances = torch.cdist(points, points)
    assert sorted(complementary(distances, importance, layers[[0, 1, 0, 0, 0, 0, 0] + [0] * 5], 3)) == [1, 6, 8]


def test_a_layer_without_takes_a_place_in_its_cluster():
    points, importance = planted(3, 2), torch.tensor([5.0, 1, 2, 1, 9, 3])
    distances = torch.cdist(points, points)
    layers = torch.tensor([0, 0, 0, 0, 0, 1])  # the only unit of layer 1 is second in the cluster of unit 4
    assert sorted(complementary(distances, importance, layers, 3)) == [0, 2, 5]
    alone = torch.tensor([0, 0, 0, 0, 1, 2])  # unit 4 is the only one of layer 1: another cluster loses its unit
    assert sorted(complementary(distances, importance, alone, 3)) == [0, 4, 5]
    assert sorted(complementary(distances, importance, alone, 2)) != [4, 5]  # too few for every layer


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**31), st.data())
def test_budgets_are_met_and_layers_kept(units, layers, seed, data):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(units, 2, dtype=torch.float64, generator=generator)
    layer = torch.randint(layers, (units,), generator=generator)
    keep = data.draw(st.integers(0, units))
    distances, importance = torch.cdist(points, points), torch.rand(units, generator=generator)
    chosen = complementary(distances, importance, layer, keep)
    assert len(set(chosen)) == len(chosen) == keep
    if keep >= len(layer.unique()):
        assert len(layer[chosen].unique()) == len(layer.unique())


def test_the_chosen_number_is_one_of_the_budgets(tiny):
    view = tiny.random_view("bert")
    assert 2 <= chosen_number(view) <= 7
    few = tiny.view(view.model, view.batches, kept=torch.tensor([True, True, *[False] * 6]))
    assert chosen_number(few) == 2


def test_an_attention_map_that_is_not_finite_names_the_head(tiny):
    view = tiny.random_view("bert")
    path = view.heads.sites[1].projections["query"]
    with torch.no_grad():
        view.model.get_submodule(path).weight[4, 0] = torch.nan  # of head 1
    with pytest.raises(FloatingPointError, match=r"head \d of bert\.encoder\.layer\.[01]"):
        cahp(view, 3)


def test_all_budgets_take_two_passes_forward_and_one_backward(tiny):
    view = tiny.random_view("bert")
    with counting(view.model) as passes:
        select(METHODS["cahp"], {}, view, [0, 2, 4, 8])
    assert (passes.forward, passes.backward) == (12, 6)
