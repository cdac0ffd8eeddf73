"""Arrays of neurons are told apart by what they hold, whatever a model calls its layers."""

from __future__ import annotations

import numpy as np

from bench.records.arrays import neuron_orders, neurons_kept


def test_orders_and_masks_are_told_apart_where_layers_have_numbers_for_names():
    arrays = {
        "outcomes": np.ones((2, 3, 5), bool),
        "neurons.0.0.mlp": np.arange(4, dtype=np.int16),  # the first draw's order of the layer 0.mlp
        "neurons.1.0.mlp": np.arange(4, dtype=np.int32)[::-1],
        "neurons.0.mlp": np.ones((3, 4), bool),  # of a joint method, whose layer has the same name
    }
    assert {name: order.tolist() for name, order in neuron_orders(arrays).items()} == {"0.mlp": [0, 1, 2, 3]}
    assert {name: order.tolist() for name, order in neuron_orders(arrays, 1).items()} == {"0.mlp": [3, 2, 1, 0]}
    assert {name: kept.shape for name, kept in neurons_kept(arrays).items()} == {"0.mlp": (3, 4)}
    assert neuron_orders({"neurons.mlp": np.ones((3, 4), bool)}) == neurons_kept({"scores.0": np.ones(4)}) == {}
