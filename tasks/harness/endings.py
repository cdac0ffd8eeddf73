"""Score many endings at once: which positions of which batch belong to which request, found once for all models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Pair = tuple[Sequence[int], Sequence[int]]  # tokens of a context and of its ending, at least one of each


@dataclass(frozen=True)
class EndingBatch:
    """Inputs that are run together, and where the tokens of endings are scored; K tokens of endings in all.

    inputs: (B, T), padded with 0 on the right. rows, positions: (K,), of the logits that predict each token. tokens:
    (K,). owners: (K,), the number of the request that each token belongs to.
    """

    inputs: Tensor
    rows: Tensor
    positions: Tensor
    tokens: Tensor
    owners: Tensor


def ending_batches(pairs: Sequence[Pair], max_length: int, batch_size: int) -> list[EndingBatch]:
    """Batches for ``pairs``, longest inputs first. Requests with the same input share it, as endings of one token do.

    As in lm-eval, the last token of an ending is not part of the input, and inputs of more than ``max_length`` tokens
    are truncated from the left.
    """
    requests: dict[tuple[int, ...], list[int]] = {}
    for number, (context, ending) in enumerate(pairs):
        requests.setdefault((*context, *ending)[-max_length - 1 : -1], []).append(number)
    ordered = sorted(requests, key=lambda tokens: (-len(tokens), tokens))
    return [
        _batch(ordered[start : start + batch_size], requests, pairs) for start in range(0, len(ordered), batch_size)
    ]


def _batch(
    inputs: Sequence[tuple[int, ...]], requests: dict[tuple[int, ...], list[int]], pairs: Sequence[Pair]
) -> EndingBatch:
    padded = torch.zeros(len(inputs), max(map(len, inputs)), dtype=torch.long)
    scored: list[tuple[int, int, int, int]] = []
    for row, tokens in enumerate(inputs):
        padded[row, : len(tokens)] = torch.tensor(tokens)
        for number in requests[tokens]:
            ending = pairs[number][1]
            first = len(tokens) - len(ending)
            scored += [(row, first + place, token, number) for place, token in enumerate(ending)]
    return EndingBatch(padded, *torch.tensor(scored).T.contiguous())


def score_endings(
    batches: Sequence[EndingBatch],
    requests: int,
    logits_of: Callable[[Tensor], Tensor],
    device: torch.device | str,
    dtype: torch.dtype | None = None,
) -> list[tuple[float, bool]]:
    """Log-likelihood of each ending, in nats, and whether greedy decoding gives it, by number of the request.

    logits_of: from inputs (B, T) on ``device`` to logits (B, T, vocabulary). dtype: in which the softmax is computed;
    that of the logits if None.
    """
    likelihoods = torch.zeros(requests, dtype=torch.float64)
    greedy = torch.ones(requests, dtype=torch.bool)
    for batch in batches:
        logits = logits_of(batch.inputs.to(device))
        chosen = logits[batch.rows.to(device), batch.positions.to(device)]  # (K, vocabulary)
        tokens = batch.tokens.to(device)
        scores = chosen.log_softmax(-1, dtype=dtype).gather(1, tokens[:, None])[:, 0]
        likelihoods.index_add_(0, batch.owners, scores.double().cpu())
        wrong = (chosen.argmax(-1) != tokens).cpu()
        greedy[batch.owners[wrong]] = False
    return list(zip(likelihoods.tolist(), greedy.tolist(), strict=True))
