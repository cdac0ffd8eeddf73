"""Slopes of the loss in the gates by central differences, for oracles."""

from __future__ import annotations

from dataclasses import replace

import torch

from methods.heads import gated

STEP = 1e-5


def slopes(view, text, gates=None, of=None):
    """Of the loss of one text in the gate of each unit, at these gates (at 1, where none are given): (units,).

    of: (units,) bool, the units to look at; others get 0.
    """
    units = torch.arange(len(view.heads)) if of is None else of.nonzero().flatten()
    start = torch.ones(len(view.heads), dtype=torch.float64) if gates is None else gates
    losses = []
    for change in (STEP, -STEP):
        moved = start[:, None].repeat(1, len(units))  # in each copy of the text another gate is moved
        moved[units, torch.arange(len(units))] += change
        inputs = {name: rows.repeat(len(units), *[1] * (rows.dim() - 1)) for name, rows in text.inputs.items()}
        with torch.no_grad(), gated(view.model, moved, view.heads):
            losses.append(view.loss(replace(text, inputs=inputs, labels=text.labels.repeat(len(units)))))
    found = torch.zeros(len(view.heads), dtype=torch.float64)
    found[units] = (losses[0] - losses[1]) / (2 * STEP)
    return found
