"""AMP: heads and neurons ranked by the magnitude of their output (Mugnaini et al. 2025)."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import Batch, Importance, View, scorer
from methods.calibration.padding import real_tokens
from methods.contract.options import one_order_of_heads
from methods.heads import find_mlps, observed
from methods.heads.finding.linear import transposed


@scorer(
    "amp",
    source="Mugnaini et al. 2025, AMP",
    variants={
        "amp": {"allocation": "layer"},  # the paper removes the same share of every layer
        "amp-heads": {"allocation": "layer", "parts": "heads"},
        "amp-mlp": {"allocation": "layer", "parts": "neurons"},
        "inverse-amp": {"allocation": "layer", "inverse": True},
    },
    check=one_order_of_heads,
)
def amp(
    view: View, *, parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked and removed"] = "both"
) -> Tensor | Importance:
    """Mean L1 norm of what a head adds to the output of its layer, and mean magnitude of a neuron.

        importance(head h)   = mean over examples, then over tokens, of || z_h W_O,h ||_1
        importance(neuron m) = mean over examples, then over tokens, of | input of the down projection |_m

    z_h is the head's context, (T, d_h), and W_O,h its rows of the output projection, (d_h, d). Computed in float32 in
    one forward pass, without padding, and summed over tied layers. A unit has the mean of its heads; their sum would
    favour large units where layers with units of different sizes are ranked together.

    Returns (units,) with ``parts=heads``, otherwise an Importance. Raises ValueError if a batch does not say which
    tokens are padding.

    Source: Mugnaini et al., "Efficient LLMs with AMP: Attention Heads and MLP Pruning", arXiv 2504.21174.
    """
    sites = view.heads.sites
    heads = [torch.zeros(site.num_heads, dtype=torch.float64) for site in sites]
    mlps = find_mlps(view.model) if parts != "heads" else ()
    neurons = {mlp.name: torch.zeros(mlp.width, dtype=torch.float64) for mlp in mlps}

    def add_heads(index: int, z: Tensor) -> None:
        tokens, weights = _rows_of_tokens(batch, sites[index].name, z.flatten(0, 1))
        weight = transposed(view.model.get_submodule(sites[index].output))  # (H * d_h, d)
        heads[index] += (weights @ head_norms(tokens, weight)).double().cpu()

    def add_neurons(name: str, values: Tensor) -> None:
        tokens, weights = _rows_of_tokens(batch, name, values.flatten(0, -2))
        neurons[name] += (weights @ tokens.abs_()).double().cpu()

    context, activations = add_heads if parts != "neurons" else None, add_neurons if mlps else None
    with torch.no_grad(), observed(view.model, view.heads, context=context, neurons=activations):
        for batch in view.batches:
            view.logits(batch)
    units = torch.cat([view.per_unit(index, total) for index, total in enumerate(heads)]) / view.examples
    if parts == "heads":
        return units
    neuron_means = {name: total / view.examples for name, total in neurons.items()}
    return Importance(None if parts == "neurons" else units, neuron_means)


def head_norms(tokens: Tensor, weight: Tensor) -> Tensor:
    """|| z_h W_O,h ||_1 of each token and head: tokens (N, H, d_h) and weight (H * d_h, d); returns (N, H).

    One head at a time: all at once would take H times the memory of the hidden states.
    """
    rows = weight.unflatten(0, tokens.shape[1:])  # (H, d_h, d)
    norms = [(tokens[:, n] @ rows[n].to(tokens.dtype)).abs_().sum(1) for n in range(len(rows))]
    return torch.stack(norms, dim=1)


def _rows_of_tokens(batch: Batch, layer: str, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The N rows of ``rows``, (B * T, ...), that are not padding, in float32, and their weights, (N,).

    The weight of a row is one over the number of tokens of its text. Raises ValueError if the batch does not say which
    tokens of ``layer`` are padding.
    """
    mask = real_tokens(batch, layer, len(rows) // len(batch.labels)).to(rows.device)
    tokens = rows[mask.flatten()].to(torch.promote_types(rows.dtype, torch.float32))
    weights = mask.to(tokens.dtype) / mask.sum(1, keepdim=True)
    return tokens, weights[mask]
