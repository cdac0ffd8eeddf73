"""AMP: heads and neurons ranked by the size of what they pass on (Mugnaini et al. 2025).

"Efficient LLMs with AMP: Attention Heads and MLP Pruning", arXiv 2504.21174.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.registry import scorer
from methods.contract.schedule import Importance
from methods.contract.view import Batch, View
from methods.heads import find_mlps, observed
from methods.heads.finding.linear import transposed


@scorer(
    "amp",
    source="Mugnaini et al. 2025, AMP",
    variants={
        "amp": {"allocation": "layer"},  # the paper takes the same share of every layer
        "amp-heads": {"allocation": "layer", "parts": "heads"},
        "amp-mlp": {"allocation": "layer", "parts": "neurons"},
        "inverse-amp": {"allocation": "layer", "inverse": True},
    },
)
def amp(
    view: View, *, parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked, and removed"] = "both"
) -> Tensor | Importance:
    """Mean L1 norm of what a head adds to its layer's output, and mean magnitude of a neuron.

    Head n of a token: || h_n W_O,n ||_1, of its context and its rows of the output projection. Neuron m of a token:
    |input of the down projection|_m. Both in float32, averaged over a text's tokens without padding, then over texts,
    and summed over the calls of a tied layer. One forward pass serves both, and nothing of a layer outlives its call.

    A unit has the mean of its heads. Their sum ranks the units of a layer, all of one size, alike; but where layers
    whose units differ in size are ranked together, it would hold a unit to be important for being large.

    Returns (units,) where heads alone are ranked, else an Importance. Raises ValueError where a batch does not say
    which tokens are padding.
    """
    sites = view.heads.sites
    heads = [torch.zeros(site.num_heads, dtype=torch.float64) for site in sites]
    mlps = find_mlps(view.model) if parts != "heads" else ()
    neurons = {mlp.name: torch.zeros(mlp.width, dtype=torch.float64) for mlp in mlps}

    def add_heads(index: int, z: Tensor) -> None:
        tokens, share = _real_tokens(view, batch, sites[index].name, z.flatten(0, 1))
        weight = transposed(view.model.get_submodule(sites[index].output))  # (H * d_h, d)
        heads[index] += (share @ head_norms(tokens, weight)).double().cpu()

    def add_neurons(name: str, values: Tensor) -> None:
        tokens, share = _real_tokens(view, batch, name, values.flatten(0, -2))
        neurons[name] += (share @ tokens.abs_()).double().cpu()

    context, activations = add_heads if parts != "neurons" else None, add_neurons if mlps else None
    with torch.no_grad(), observed(view.model, view.heads, context=context, neurons=activations):
        for batch in view.batches:
            view.logits(batch)
    units = torch.cat([view.per_unit(index, total) for index, total in enumerate(heads)]) / view.examples
    if parts == "heads":
        return units
    of_neurons = {name: total / view.examples for name, total in neurons.items()}
    return Importance(None if parts == "neurons" else units, of_neurons)


def head_norms(tokens: Tensor, weight: Tensor) -> Tensor:
    """|| h_n W_O,n ||_1 of each token and head: tokens (N, H, d_h) and weight (H * d_h, d) to (N, H).

    One head after another: all at once would take H times the memory of the hidden states.
    """
    rows = weight.unflatten(0, tokens.shape[1:])  # (H, d_h, d)
    norms = [(tokens[:, n] @ rows[n].to(tokens.dtype)).abs_().sum(1) for n in range(len(rows))]
    return torch.stack(norms, dim=1)


def _real_tokens(view: View, batch: Batch, layer: str, rows: Tensor) -> tuple[Tensor, Tensor]:
    """A copy, in float32, of the rows (B * T, ...) that are no padding, and the share of each in its text's mean, (N,).

    Raises ValueError where the batch does not say which tokens of ``layer`` are padding.
    """
    of_decoder = "decoder" in layer.split(".") and any(site.kind == "cross" for site in view.heads.sites)
    prefix = "decoder_" if of_decoder and "decoder_input_ids" in batch.inputs else ""
    mask = batch.inputs.get(f"{prefix}attention_mask")  # (B, T)
    if mask is None and f"{prefix}input_ids" not in batch.inputs:  # images
        mask = torch.ones(len(batch.labels), len(rows) // len(batch.labels), device=rows.device)
    if mask is None or mask.numel() != len(rows):
        raise ValueError(f"the batch has no {prefix}attention_mask that fits {layer}: its padding is unknown")
    mask = mask.to(rows.device).bool()
    tokens = rows[mask.flatten()].to(torch.promote_types(rows.dtype, torch.float32))
    share = mask.to(tokens.dtype) / mask.sum(1, keepdim=True)
    return tokens, share[mask]
