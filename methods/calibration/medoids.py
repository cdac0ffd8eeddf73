"""Clusters around medoids, and how many there are. Functions of the distances between points, (points, points)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def medoids(distances: Tensor, count: int) -> Tensor:
    """``count`` points to which all are near: (count,) indices, ascending.

    Begins with none and takes, one by one, that which lowers the sum of distances to the nearest medoid most (BUILD),
    then swaps a medoid for another point, always the best of all swaps, until no swap lowers the sum: a local optimum
    in the sense of PAM and FasterPAM (Schubert & Rousseeuw 2021), whose sharing of sums over swaps it uses.
    """
    points = len(distances)
    chosen: list[int] = []
    nearest = torch.full((points,), torch.inf, dtype=distances.dtype)
    for _ in range(count):
        totals = torch.minimum(nearest[:, None], distances).sum(0)
        totals[chosen] = torch.inf
        chosen.append(int(totals.argmin()))
        nearest = torch.minimum(nearest, distances[chosen[-1]])
    while 0 < count < points:
        first, own, second = _nearest_two(distances, chosen)
        # Change of the distance of each point (rows) if another (columns) becomes a medoid, beside its own or for it.
        added = torch.minimum(distances, first[:, None]) - first[:, None]
        replaced = torch.minimum(distances, second[:, None]) - first[:, None]
        change = added.sum(0) + added.new_zeros(count, points).index_add_(0, own, replaced - added)
        change[:, chosen] = torch.inf
        best = int(change.argmin())
        if change.flatten()[best] >= -1e-12 * first.sum():  # rounding must not make swaps go round
            break
        chosen[best // points] = best % points
    return torch.tensor(sorted(chosen), dtype=torch.long)


def clusters_of(distances: Tensor, chosen: Tensor) -> Tensor:
    """For each point, which of the medoids ``chosen`` is nearest: (points,). A medoid is in its own cluster."""
    nearest = distances[:, chosen].argmin(1) if len(chosen) else torch.zeros(len(distances), dtype=torch.long)
    nearest[chosen] = torch.arange(len(chosen))
    return nearest


def simplified_silhouette(distances: Tensor, chosen: Tensor) -> float:
    """Mean over points of 1 - a / b, a and b the distances to the nearest and the second nearest of several medoids.

    0 for a point with b = 0. Source: Levin & Singer 2024, "GB-AFS", Mean Simplified Silhouette.
    """
    first, _, second = _nearest_two(distances, chosen.tolist())
    return float(torch.where(second > 0, 1 - first / second, 0.0).mean())


def knee(values: Sequence[float]) -> int:
    """Index at which a rising curve of diminishing returns is farthest above the diagonal, both axes scaled to 0 to 1.

    0 where it is nowhere above, so that there is no knee. Source: Satopaa et al. 2011, "Kneedle", with no smoothing and
    the highest maximum.
    """
    curve = torch.tensor(values, dtype=torch.float64)
    low, high = curve.min(), curve.max()
    if low == high:
        return 0
    return int(((curve - low) / (high - low) - torch.linspace(0, 1, len(curve), dtype=torch.float64)).argmax())


def _nearest_two(distances: Tensor, chosen: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Distance to the nearest medoid, its place in ``chosen``, and distance to the next, inf if there is none."""
    to_medoids = distances[:, chosen]
    first, own = to_medoids.min(1)
    return first, own, to_medoids.scatter(1, own[:, None], torch.inf).amin(1)
