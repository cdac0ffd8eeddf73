"""Running the top block only at the position of each example that the logits are read from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.incremental.forwards import replaced_forward


class _Attended(Exception):
    """Carries the attention's output out of a block; the rest of the block is not run."""


def run_at(
    positions: Tensor,
    attention: nn.Module,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    trial: bool,
) -> Any:
    """Output of a block, (n * B, T, d), right at ``positions`` and NaN at all others, so that reading those would show.

    Only the attention mixes positions, so all that follows it runs on (n * B, 1, d). That this holds for a block is
    for the caller to try: with ``trial`` it runs on (n * B, T, d), NaN at all other positions, which gives the very
    bits of a full run.

    positions: LongTensor (B,). forward, args, kwargs: the block's own, for the batch or n copies of it.
    """

    def attend(own: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        raise _Attended(own(*args, **kwargs))

    def only(values: Tensor) -> Tensor:
        chosen = take(positions, values)
        return place(positions, chosen, values.shape[1]) if trial else chosen

    try:
        with replaced_forward(attention, attend):
            return forward(*args, **kwargs)
    except _Attended as reached:
        result = reached.args[0]
    attended = (only(result[0]), *[None] * (len(result) - 1)) if isinstance(result, tuple) else only(result)
    hidden = args[0] if args else kwargs["hidden_states"]
    if args:
        args = only(hidden), *args[1:]
    else:
        kwargs = {**kwargs, "hidden_states": only(hidden)}
    with replaced_forward(attention, lambda own, *args, **kwargs: attended):
        output = forward(*args, **kwargs)
    if trial:
        return output
    length = hidden.shape[1]
    placed = place(positions, output[0] if isinstance(output, tuple) else output, length)
    return (placed, *output[1:]) if isinstance(output, tuple) else placed


def take(positions: Tensor, values: Tensor) -> Tensor:
    """The values at one position of each example: (n * B, T, d), n copies of a batch, to (n * B, 1, d)."""
    return values[_rows(values), positions.repeat(len(values) // len(positions))][:, None]


def place(positions: Tensor, values: Tensor, length: int) -> Tensor:
    """The inverse of ``take``: (n * B, 1, d) to (n * B, length, d), NaN at all other positions."""
    everywhere = values.new_full((len(values), length, values.shape[2]), torch.nan)
    everywhere[_rows(values), positions.repeat(len(values) // len(positions))] = values[:, 0]
    return everywhere


def _rows(values: Tensor) -> Tensor:
    return torch.arange(len(values), device=values.device)


def first_token(inputs: dict[str, Any], batch: int, length: int) -> Tensor:
    """Position of each example that most encoders classify by, (batch,)."""
    return torch.zeros(batch, dtype=torch.long)


def last_token(inputs: dict[str, Any], batch: int, length: int) -> Tensor:
    """Position of each example that most decoders classify by, (batch,): the last one that is not padding."""
    mask = inputs.get("attention_mask")
    if mask is None or mask.shape != (batch, length):  # of frames before a convolution, or of pairs of tokens
        return torch.full((batch,), length - 1)
    places: Tensor = (mask != 0) * torch.arange(length, device=mask.device)
    return places.argmax(1)
