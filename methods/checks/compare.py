"""Whether an answer is complete, and whether two answers are the same; a Failure names the head that is not."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from methods import View
from methods.checks.case import Failure

# Share of the largest importance by which two may differ that should be the same, in float32 and in bfloat16.
CLOSE, ROUGH = 1e-3, 0.1


def complete(view: View, answer: Mapping[str, Tensor], where: str, kept: Tensor | None = None) -> None:
    """Raises Failure unless there is one entry a unit, finite if the unit is among those ``kept``, (units,) bool."""
    kept = view.heads.full_mask() if kept is None else kept
    units = answer.get("units", torch.zeros(len(kept)))
    if units.shape[-1:] != kept.shape:
        raise Failure(f"{where}: {tuple(units.shape)} entries for {len(kept)} units")
    if bad := (~units.isfinite() & kept).nonzero().tolist():
        raise Failure(f"{where}: importance {units[tuple(bad[0])].item()} for {view.heads.name(bad[0][-1])}")
    for name, values in answer.items():
        if name != "units" and not values.isfinite().all():
            neuron = int((~values.isfinite()).nonzero()[0, -1])
            raise Failure(f"{where}: importance not finite for neuron {neuron} of {name}")


def same(view: View, expected: Mapping[str, Tensor], found: Mapping[str, Tensor], close: float, where: str) -> None:
    """Raises Failure, naming the worst entry, where a difference exceeds ``close`` of the largest importance.

    In a mask, true and false are such a difference.
    """
    for name, values in expected.items():
        old, new = values.double(), found[name].double()
        if old.shape != new.shape:
            raise Failure(f"{where}: {name} of shape {tuple(new.shape)} instead of {tuple(old.shape)}")
        gaps = (new - old).abs()
        if old.numel() and not gaps.max() <= close * old.abs().max():
            worst = int(gaps.argmax())
            entry = worst % old.shape[-1]
            head = view.heads.name(entry) if name == "units" else f"neuron {entry} of {name}"
            number = int((gaps > close * old.abs().max()).sum())
            before, after = old.flatten()[worst], new.flatten()[worst]
            raise Failure(f"{where}: {after:.5g} instead of {before:.5g} for {head} ({number} of {old.numel()} differ)")


def ranked_alike(view: View, gated: Mapping[str, Tensor], removed: Mapping[str, Tensor], where: str) -> None:
    """Raises Failure, naming two units, where one is clearly below the other on one model and above it on the other."""
    for name, values in gated.items():
        below, above = _clearly_below(values), _clearly_below(removed[name]).mT
        if wrong := (below & above).nonzero().tolist():
            *_, one, other = wrong[0]
            heads = [view.heads.name(i) if name == "units" else f"neuron {i} of {name}" for i in (one, other)]
            raise Failure(
                f"{where}: {heads[0]} is below {heads[1]} if they are gated to zero, above it if they are gone"
            )


def _clearly_below(values: Tensor) -> Tensor:
    """Whether the first of two is less by more than a difference that counts, (..., n, n) bool."""
    values = values.double()
    return values[..., :, None] < values[..., None, :] - CLOSE * values.abs().amax(-1)[..., None, None]
