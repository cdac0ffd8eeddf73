"""CAHP: heads that tell classes apart in different ways, one from each cluster (Livertovsky, Somin & Singer 2026)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from methods import View, selector
from methods.calibration.attention_maps import class_maps
from methods.calibration.gate_gradients import gate_gradients
from methods.calibration.medoids import clusters_of, knee, medoids, simplified_silhouette
from methods.calibration.once import once

PERPLEXITY = 10.0
LEAST_VARIANCE = 1e-8  # of a pixel: rounding must not tell classes apart where a map is the same for all texts


def chosen_number(view: View) -> int:
    """Number of units that the method keeps if it is given no budget: the knee of how well k clusters fit.

    The fit is the mean simplified silhouette for k = 2 to N - 1, as in the authors' GB-AFS, the knee that of Kneedle;
    the paper fits a polynomial first. Where the curve has no knee, as it may have with few units, that is 2. All units
    if there are fewer than 3.
    """
    distances = heads_in_the_plane(view).distances
    numbers = range(2, len(distances))
    fits = [simplified_silhouette(distances, medoids(distances, number)) for number in numbers]
    return numbers[knee(fits)] if fits else len(distances)


@selector("cahp", source="Livertovsky, Somin & Singer 2026, arXiv 2606.19150", own_number=chosen_number)
def cahp(view: View, keep: int) -> Tensor:
    """Clusters heads by how their attention maps tell the classes of texts apart, and keeps one head of each cluster.

        JM = 2 (1 - exp(-B)),  B = (m - m')^2 / (4 (s + s')) + 1/2 log((s + s') / (2 sqrt(s s')))

    for each pair of classes and each pixel of a map, resized to 32 x 32: m and s are its mean and variance over the
    texts of one class, m' and s' over those of the other. These distances place a head; t-SNE (perplexity 10) maps the
    places to the plane, where k-medoids finds as many clusters as there are units to keep. From each cluster the unit
    with the largest mean |d loss / d g| stays. If the budget allows, every layer keeps one: the most important unit of
    a layer without takes the place of the one of its cluster, or else of the least important one, in a layer that has
    others. Takes one forward pass with eager attention and one pass forward and backward, for all budgets together; the
    model is not trained afterwards. Returns (units,).

    The paper chooses the number of heads itself, as ``prune --keep auto`` does. Our reading, where we know no more:
    variances of at least 1e-8; for fewer than 31 units a perplexity of a third of the others; t-SNE starts from the
    first two principal components, at a learning rate of N / 48, as scikit-learn's default of at least 50 leaves it to
    rounding where so few points end; a unit has the mean of its heads' distances, a tied layer that of its calls.
    For texts of a single class, as of language models, there are no pairs: means and deviations themselves place a
    head. (The built-in questions of ``harness`` count as four classes, by the place of the right ending among four in
    random order, which no map can tell: distances of heads come from chance there.) From some 36 units on, t-SNE can
    still turn differences of rounding, as between batches of other sizes, into another choice of a head or two.

    Source: Livertovsky, Somin & Singer, "Complementary Attention Head Pruning for Efficient Transformers", arXiv
    2606.19150.
    """
    mask = torch.zeros(len(view.heads), dtype=torch.bool)
    plane = heads_in_the_plane(view)
    layers = view.heads.site_of_unit[plane.units]
    chosen = complementary(plane.distances, plane.importance, layers, keep, view.heads.never_empty)
    mask[plane.units[chosen]] = True
    return mask


@dataclass(frozen=True)
class Plane:
    """units: (n,), those that are left. distances: between their places in the plane, (n, n). importance: (n,)."""

    units: Tensor
    distances: Tensor
    importance: Tensor


@once
def heads_in_the_plane(view: View) -> Plane:
    """Where t-SNE maps the units that are left, and the mean absolute gradient of the loss to their gates.

    Raises FloatingPointError for an attention map or a gradient that is not finite.
    """
    units = view.kept.nonzero().flatten()
    importance = torch.cat(list(gate_gradients(view)), 1).abs().mean(1)
    products = sum((features @ features.T for features in separability(view)), start=torch.zeros(()).double())
    for unit in units.tolist():
        if not (products[unit, unit].isfinite() and importance[unit].isfinite()):
            raise FloatingPointError(f"attention or gradient of {view.heads.name(unit)} is not finite")
    return Plane(units, plane_distances(products[units][:, units]), importance[units])


def separability(view: View) -> Iterator[Tensor]:
    """Features of all units, (units, pixels) for each pair of classes: the Jeffries-Matusita distance of each pixel.

    Where all texts are of one class: means, then standard deviations.
    """
    maps = list(class_maps(view))
    variances = [each.variance.clamp_min(LEAST_VARIANCE) for each in maps]
    classes = len(maps[0].mean) if maps else 0

    def of_units(values: list[Tensor]) -> Tensor:
        """Mean over calls and the heads of a unit, from (H, pixels) for each call."""
        sites: dict[int, list[Tensor]] = {index: [] for index in range(len(view.heads.sites))}
        for each, value in zip(maps, values, strict=True):
            sites[each.site].append(value)
        means = [view.per_unit(site, torch.stack(calls).mean(0)) for site, calls in sites.items() if calls]
        return torch.cat(means)

    if classes == 1:
        yield of_units([each.mean[0] for each in maps])
        yield of_units([variance[0].sqrt() for variance in variances])
    for one, other in combinations(range(classes), 2):
        yield of_units(
            [
                jeffries_matusita(each.mean[one], variance[one], each.mean[other], variance[other])
                for each, variance in zip(maps, variances, strict=True)
            ]
        )


def jeffries_matusita(mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor) -> Tensor:
    """Distance of two normal distributions, 0 to 2, from means and variances of any one shape."""
    both = variance + other_variance
    bhattacharyya = (mean - other_mean).square() / (4 * both) + (
        both / (2 * (variance * other_variance).sqrt())
    ).log() / 2
    return -2 * torch.expm1(-bhattacharyya)


def plane_distances(products: Tensor) -> Tensor:
    """Distances between points after t-SNE to the plane, (n, n), from the inner products of the points, (n, n).

    Up to three points lie in a plane as they are, and so do points that are all alike.
    """
    centred = products - products.mean(0) - products.mean(1, keepdim=True) + products.mean()
    squares = centred.diagonal()
    distances = (squares[:, None] + squares - 2 * centred).clamp_min(0.0).sqrt()
    if len(products) <= 3 or not distances.any():
        return distances
    values, vectors = torch.linalg.eigh(centred)
    components = (vectors * values.clamp_min(0.0).sqrt())[:, -2:].flip(1)  # principal components of the points
    components *= components.gather(0, components.abs().argmax(0, keepdim=True)).sign()  # eigenvectors have no sign
    start = components / components[:, 0].std(correction=0) * 1e-4
    tsne = _tsne()(
        perplexity=min(PERPLEXITY, (len(products) - 1) / 3),
        learning_rate=len(products) / 48,
        metric="precomputed",
        init=start.numpy(),
        method="exact",
    )
    places = torch.from_numpy(tsne.fit_transform(distances.numpy().copy())).double()  # it squares what it is given
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")


def _tsne() -> Any:
    """scikit-learn's TSNE, which is slow to import; that draws random numbers."""
    state = random.getstate()
    from sklearn.manifold import TSNE

    random.setstate(state)
    return TSNE


def complementary(
    distances: Tensor, importance: Tensor, layers: Tensor, keep: int, never_empty: Collection[int] = ()
) -> list[int]:
    """The ``keep`` points to keep: the most important of each cluster, and of every layer one if there are enough.

    distances: (n, n). importance, layers: (n,). never_empty: layers that keep one in any case.
    """
    cluster = clusters_of(distances, medoids(distances, keep))
    chosen = [_most_important((cluster == each).nonzero().flatten(), importance) for each in range(keep)]
    every = layers.unique().tolist()
    wanted = every if keep >= len(every) else [layer for layer in every if layer in never_empty]
    for layer in wanted:
        kept = Counter(layers[chosen].tolist())
        if not kept[layer]:
            new = _most_important((layers == layer).nonzero().flatten(), importance)
            spare = [each for each in chosen if kept[int(layers[each])] > 1 or int(layers[each]) not in wanted]
            alike = [each for each in spare if cluster[each] == cluster[new]]
            chosen[chosen.index(min(alike or spare, key=lambda each: float(importance[each])))] = new
    return chosen


def _most_important(points: Tensor, importance: Tensor) -> int:
    return int(points[importance[points].argmax()])
