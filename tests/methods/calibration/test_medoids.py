"""Clusters around medoids: no swap is better, and planted clusters and knees are found."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.calibration.medoids import clusters_of, knee, medoids, simplified_silhouette


@st.composite
def problems(draw):
    points, seed = draw(st.integers(1, 9)), draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(4, (points, 2), generator=generator).double()  # some points at the same place
    return torch.cdist(places, places), draw(st.integers(0, points))


def cost(distances, chosen) -> float:
    return sum(min(row[each].item() for each in chosen) for row in distances)


@given(problems())
def test_no_swap_lowers_the_sum_of_distances(problem):
    distances, count = problem
    chosen = medoids(distances, count).tolist()
    assert len(set(chosen)) == len(chosen) == count
    for old in chosen:
        for new in set(range(len(distances))) - set(chosen):
            swapped = [each for each in chosen if each != old] + [new]
            assert cost(distances, swapped) >= cost(distances, chosen) - 1e-9


@given(problems())
def test_points_are_with_the_nearest_medoid_and_no_cluster_is_empty(problem):
    distances, count = problem
    if not count:
        return
    chosen = medoids(distances, count)
    clusters = clusters_of(distances, chosen)
    assert set(clusters.tolist()) == set(range(count))
    assert torch.equal(distances[torch.arange(len(distances)), chosen[clusters]], distances[:, chosen].amin(1))


def test_swaps_mend_what_was_taken_first():
    """The point in the middle is taken first for one cluster; the best two do without it."""
    places = torch.tensor([[0.0], [1.0], [5.0], [9.0], [10.0]]).double()
    distances = torch.cdist(places, places)
    assert medoids(distances, 1).tolist() == [2]
    assert cost(distances, medoids(distances, 2).tolist()) == 6.0  # as of 1 and 9 or 10; 5 and any other costs more


def test_silhouette_is_that_of_its_definition():
    places = torch.tensor([[0.0], [1.0], [4.0], [10.0]]).double()
    distances = torch.cdist(places, places)
    # medoids at 0 and 10: nearest 0, 1, 4, 0 and next 10, 9, 6, 10
    expected = (1 + (1 - 1 / 9) + (1 - 4 / 6) + 1) / 4
    assert simplified_silhouette(distances, torch.tensor([0, 3])) == pytest.approx(expected)
    assert simplified_silhouette(torch.zeros(3, 3).double(), torch.tensor([0, 1])) == 0.0


def test_the_knee_of_the_curve_in_kneedles_paper():
    curve = [5 - 1 / (place / 9 + 0.1) for place in range(10)]  # its Figure 2: the knee is at 0.22
    assert knee(curve) == 2
    assert knee([1.0, 1.0, 1.0]) == 0


def test_the_knee_is_at_the_number_of_planted_clusters():
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0], [10, 0], [0, 10], [10, 10]]).double().repeat_interleave(5, 0)
    places = centres + 0.01 * torch.randn(20, 2, dtype=torch.float64, generator=generator)
    distances = torch.cdist(places, places)
    numbers = range(2, 20)
    assert numbers[knee([simplified_silhouette(distances, medoids(distances, k)) for k in numbers])] == 4
