"""Compare results of a method. A Failure names the first head or neuron that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from methods import View
from methods.checks.case import Failure

# Largest difference between importances that should be equal, as a share of the largest: in float32 and in bfloat16.
CLOSE, ROUGH = 1e-3, 0.1

Result = Mapping[str, Tensor]  # "units": (..., units); layers: (..., width)


def check_complete(view: View, result: Result, where: str, kept: Tensor | None = None) -> None:
    """Raises Failure unless there is one entry per unit, finite for the units ``kept``, (units,) bool; default all."""
    kept = view.heads.full_mask() if kept is None else kept
    units = result.get("units", torch.zeros(len(kept)))
    if units.shape[-1:] != kept.shape:
        raise Failure(f"{where}: {tuple(units.shape)} entries for {len(kept)} units")
    if bad := (~units.isfinite() & kept).nonzero().tolist():
        raise Failure(f"{where}: importance {units[tuple(bad[0])].item()} for {view.heads.name(bad[0][-1])}")
    for name, values in result.items():
        if name != "units" and not values.isfinite().all():
            neuron = int((~values.isfinite()).nonzero()[0, -1])
            raise Failure(f"{where}: importance not finite for neuron {neuron} of {name}")


def bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    """What a tensor is compared by where it must be the same: unlike with ``torch.equal``, NaN equals NaN."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tensor.dtype, tensor.shape, flat.numpy().tobytes()


def check_close(view: View, expected: Result, found: Result, tolerance: float, where: str) -> None:
    """Raises Failure, naming the worst entry, where a difference exceeds ``tolerance`` times the largest importance.

    In a mask, any difference does.
    """
    for name, values in expected.items():
        old, new = values.double(), found[name].double()
        if old.shape != new.shape:
            raise Failure(f"{where}: {name} of shape {tuple(new.shape)} instead of {tuple(old.shape)}")
        if not old.numel():
            continue
        gaps = (new - old).abs().masked_fill(old.isnan() & new.isnan(), 0)  # that none is NaN is another rule
        most = tolerance * old.abs().nan_to_num(0, torch.inf).max()
        if not gaps.max() <= most:
            worst = int(gaps.argmax())
            differ = int((~(gaps <= most)).sum())
            before, after = old.flatten()[worst], new.flatten()[worst]
            head = _entry(view, name, worst % old.shape[-1])
            raise Failure(f"{where}: {after:.5g} instead of {before:.5g} for {head} ({differ} of {old.numel()} differ)")


def check_same_ranking(view: View, gated: Result, removed: Result, where: str) -> None:
    """Raises Failure, naming two units, where one is clearly below the other in one result and above it in the other.

    gated, removed: importances of the units of ``view``, with the heads of a layer gated to zero and with them removed.
    """
    for name, values in gated.items():
        below, above = _clearly_below(values), _clearly_below(removed[name]).mT
        if wrong := (below & above).nonzero().tolist():
            one, other = (_entry(view, name, entry) for entry in wrong[0][-2:])
            raise Failure(f"{where}: {one} is below {other} with its heads gated to zero, above it with them removed")


def _entry(view: View, name: str, entry: int) -> str:
    return view.heads.name(entry) if name == "units" else f"neuron {entry} of {name}"


def _clearly_below(values: Tensor) -> Tensor:
    """Whether the first of two entries is lower by more than the tolerance, (..., n, n) bool."""
    values = values.double()
    return values[..., :, None] < values[..., None, :] - CLOSE * values.abs().amax(-1)[..., None, None]
