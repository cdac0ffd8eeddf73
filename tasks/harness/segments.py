"""Perplexity of WikiText-2 as papers on compressing language models count it: in segments of the joined test split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerBase

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

WIKITEXT = "wikitext"  # lm-eval's name of the task whose documents these are
LONGEST = 2048  # tokens of a segment, unless the model has fewer positions


def joined(pages: Iterable[str]) -> str:
    """The text of all lines of ``pages`` with two line ends between them, where empty lines have none of their own.

    So ``"\\n\\n".join(dataset["text"])`` makes one text of the rows of the data set on the hub, the first of which is
    empty and belongs to no page. pages: articles whose lines, the last but for its line end, are as in the data set.
    """
    lines = (line for page in pages for line in page.removesuffix("\n").split("\n"))
    return "\n\n".join(["", *(f"{line}\n" if line.strip() else "" for line in lines)])


@torch.no_grad()
def segment_perplexity(model: PreTrainedModel, segments: torch.Tensor, batch_size: int = 1) -> float:
    """exp of the mean negative log-likelihood of all tokens but the first of each segment.

    segments: token ids, (segments, tokens). Raises FloatingPointError where logits are not finite.

    Source: Ashkboos et al. 2024, SliceGPT, arXiv 2401.15024, and its code, whose figures others compare with.
    """
    total = torch.zeros((), dtype=torch.float64)
    for rows in segments.split(batch_size):
        some = rows.to(model.device)
        found = model(input_ids=some, use_cache=False).logits[:, :-1].float()
        if not found.isfinite().all():
            raise FloatingPointError("logits are not finite")
        total += F.cross_entropy(found.flatten(0, 1), some[:, 1:].flatten(), reduction="sum").double().cpu()
    return float((total / segments[:, 1:].numel()).exp())


def segments_of(text: str, tokenizer: PreTrainedTokenizerBase, positions: int) -> torch.Tensor:
    """Token ids of ``text`` in segments, (segments, tokens), the last tokens left out; of no segment if too short."""
    length = min(LONGEST, positions)
    ids: Any = tokenizer(text, return_tensors="pt", verbose=False)["input_ids"][0]
    return ids[: len(ids) // length * length].view(-1, length)
