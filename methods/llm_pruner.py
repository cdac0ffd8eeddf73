"""LLM-Pruner: Taylor importance of all weights of a head (Ma, Fang & Wang 2023)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal, cast

import torch
from torch import Tensor, nn

from methods import View, scorer
from methods.calibration.single_texts import single_texts
from methods.heads import Site
from methods.heads.orders.fused import ROLES

COMBINE = {
    "sum": lambda matrices: matrices.sum(0),
    "product": lambda matrices: matrices.prod(0),
    "max": lambda matrices: matrices.amax(0),
}


@scorer("llm-pruner", source="Ma, Fang & Wang 2023, LLM-Pruner, Eqs. 3 to 5")
def llm_pruner(
    view: View,
    *,
    order: Annotated[
        Literal["first", "second", "mixed", "vector"], "terms of the expansion, weight by weight, or first for a matrix"
    ] = "first",
    combine: Annotated[
        Literal["sum", "product", "max"], "how a head's parts of W_Q, W_K, W_V and W_O are put together"
    ] = "sum",
) -> Tensor:
    """Taylor expansion of the change of the loss when the head's weights become zero, weight by weight.

        first:  sum over w of | w g |                 g: mean over examples of dL/dw
        second: sum over w of | w^2 h |               h: mean over examples of (dL/dw)^2, for the Hessian's diagonal
        mixed:  sum over w of | w g - w^2 h / 2 |
        vector: | sum over w of w g |

    for the weights w of each of the head's four matrices: its rows of W_Q, W_K and W_V, and its columns of W_O; biases
    are left out, as in the paper. Query heads that share a key and value head have equal parts of its weights. First
    and vector take one pass forward and backward; the others as many, but text by text. A unit has the mean of its
    heads. Returns (units,).

    Source: Ma, Fang & Wang, "LLM-Pruner: On the Structural Pruning of Large Language Models", NeurIPS 2023, arXiv
    2305.11627.
    """
    paths = list(dict.fromkeys(path for site in view.heads.sites for path in _paths(site)))
    layers = [view.model.get_submodule(path) for path in paths]
    gradients, squares = _moments(view, [cast(Tensor, layer.weight) for layer in layers], order in ("second", "mixed"))
    values = {}  # by path: the term of each weight, (inputs, outputs) in float64
    for path, layer, gradient, square in zip(paths, layers, gradients, squares, strict=True):
        weight = cast(Tensor, layer.weight).detach().double().cpu()
        first, second = weight * gradient, weight.square() * square
        term = {"second": second, "mixed": first - second / 2}.get(order, first)
        values[path] = term.T if isinstance(layer, nn.Linear) else term
    summed = (lambda terms: terms.sum((1, 2)).abs()) if order == "vector" else (lambda terms: terms.abs().sum((1, 2)))
    scores = []
    for index, site in enumerate(view.heads.sites):
        matrices = torch.stack([summed(part) for part in _parts(site, values)])  # (4, H)
        matrices[1:3] /= site.queries_per_group
        scores.append(view.per_unit(index, COMBINE[combine](matrices)))
    return torch.cat(scores)


def _paths(site: Site) -> list[str]:
    return [*site.projections.values(), site.output]


def _parts(site: Site, values: dict[str, Tensor]) -> Iterator[Tensor]:
    """What each query head has of W_Q, W_K, W_V and W_O: (H, width, d) each."""
    for role in ROLES:
        rows = site.rows(role, list(range(site.heads_of(role))))
        of_heads = values[site.projections[role]].T[rows].unflatten(0, (site.heads_of(role), site.widths[role]))
        yield of_heads.repeat_interleave(site.num_heads // max(1, site.heads_of(role)), 0)
    yield values[site.output].unflatten(0, (site.num_heads, site.head_dim))


def _moments(view: View, weights: Sequence[Tensor], squared: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Mean over examples of the gradient of the loss to each of ``weights``, and of its square, 0 unless asked for."""
    means = [torch.zeros(weight.shape, dtype=torch.float64) for weight in weights]
    squares = [torch.zeros_like(mean) for mean in means]
    with _differentiated(weights):
        for batch in single_texts(view.batches) if squared else view.batches:
            # Projections of a layer without heads, and an encoder that no cross attention reads, have no gradient.
            gradients = torch.autograd.grad(view.loss(batch).sum(), weights, materialize_grads=True)
            for place, gradient in enumerate(gradients):
                wide = gradient.double().cpu()
                means[place] += wide / view.examples
                if squared:
                    squares[place] += wide.square() / view.examples
    return means, squares


@contextmanager
def _differentiated(weights: Sequence[Tensor]) -> Iterator[None]:
    """Inside, ``weights`` require a gradient."""
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        yield
    finally:
        for weight, was in zip(weights, before, strict=True):
            weight.requires_grad_(was)
