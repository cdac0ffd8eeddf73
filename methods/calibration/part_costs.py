"""What a unit and a neuron cost: parameters, or multiplications in a pass over the calibration set."""

from __future__ import annotations

from collections import Counter
from typing import cast

import torch
from torch import Tensor, nn

from methods.calibration.once import once
from methods.contract.view import View
from methods.heads import Mlp, Site, find_mlps, observed
from methods.heads.finding.linear import Linear, features
from methods.heads.orders.fused import ROLES


def parameter_costs(view: View) -> tuple[Tensor, dict[str, int]]:
    """Parameters that go with each unit, (units,) float64, and with each neuron of a feed-forward layer, by its name.

    A key/value head goes with the unit that has all of its query heads; one whose query heads are of several units goes
    with none. Weights of tied layers count once.
    """
    units = [_weights(view, view.heads.sites[unit.site], unit.heads, biases=True) for unit in view.heads.units]
    return torch.tensor(units, dtype=torch.float64), {
        mlp.name: _weights_of_neuron(view, mlp, biases=True) for mlp in find_mlps(view.model)
    }


@once
def multiplication_costs(view: View) -> tuple[Tensor, dict[str, float]]:
    """Multiplications that go with each, for a text of the calibration set on average, padding left out; as above.

    A weight takes one for each token, and a query head two times its width for each pair of tokens: one for the score
    and one for the value. All calls of tied layers count. In an encoder-decoder all lengths are taken to be those of
    the source, and positions that go through layers of their own (DeBERTa) to be as many as the tokens. Runs the first
    batch forward, to see how often each feed-forward layer is called.
    """
    calls: Counter[str] = Counter()
    widths: list[int] = []

    def note(name: str, values: Tensor) -> None:
        calls[name] += 1
        widths.append(values.shape[-2])

    with torch.no_grad(), observed(view.model, view.heads, neurons=note):
        view.logits(view.batches[0])
    lengths = torch.cat(
        [
            batch.inputs["attention_mask"].sum(1).double().cpu()
            if "attention_mask" in batch.inputs
            else torch.full((len(batch.labels),), float(widths[0]), dtype=torch.float64)  # images: all alike
            for batch in view.batches
        ]
    )
    tokens, pairs = float(lengths.mean()), float(lengths.square().mean())
    units = []
    for unit in view.heads.units:
        site = view.heads.sites[unit.site]
        weights = _weights(view, site, unit.heads, biases=False)
        units.append(site.calls * (weights * tokens + 2 * len(unit.heads) * site.head_dim * pairs))
    return torch.tensor(units, dtype=torch.float64), {
        mlp.name: calls[mlp.name] * _weights_of_neuron(view, mlp, biases=False) * tokens
        for mlp in find_mlps(view.model)
    }


def _weights(view: View, site: Site, heads: tuple[int, ...], biases: bool) -> int:
    """Weights that go with these query heads of ``site``; with ``biases``, all of its parameters that do."""
    groups = Counter(head // site.queries_per_group for head in heads)
    whole = sum(count == site.queries_per_group for count in groups.values())
    number = {"query": len(heads), "key": whole, "value": whole}
    total = len(heads) * _parameters_of_head(view, site) if biases else 0
    for path in site.followers:
        linear = _linear(view, path)
        inputs, outputs = features(linear)
        total += len(heads) * outputs // site.num_heads * (inputs + (biases and linear.bias is not None))
    for role in ROLES:
        if not site.keeps(role) and not (role == "value" and site.layout.order == "same"):
            linear = _linear(view, site.projections[role])
            total += number[role] * site.widths[role] * (features(linear)[0] + (biases and linear.bias is not None))
    return total + len(heads) * site.head_dim * features(_linear(view, site.output))[1]


def _parameters_of_head(view: View, site: Site) -> int:
    """Entries that one query head has in parameters of the site beside its linear layers."""
    module = view.model.get_submodule(site.name)
    tables = (module._modules.get(name) for name in site.layout.tables)
    entries = len(site.per_head) + len(site.layout.biases) * site.head_dim
    return entries + sum(table.num_embeddings for table in tables if isinstance(table, nn.Embedding))


def _weights_of_neuron(view: View, mlp: Mlp, biases: bool) -> int:
    total = features(_linear(view, mlp.output))[1]
    for path in mlp.inputs:
        linear = _linear(view, path)
        total += (1 + mlp.halves) * (features(linear)[0] + (biases and linear.bias is not None))
    return total


def _linear(view: View, path: str) -> Linear:
    return cast(Linear, view.model.get_submodule(path))
