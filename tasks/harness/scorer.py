"""lm-eval's own model class around a model that is there already, for many evaluations of the same texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lm_eval.models.huggingface import HFLM
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Known:
    """What a tokenizer has said of texts so far, which holds for every model that goes with it."""

    tokens: dict[tuple[str, bool | None], list[int]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], tuple[list[int], list[int]]] = field(default_factory=dict)  # context, continuation
    longer: dict[str, int] = field(default_factory=dict)  # documents that do not fit, by task


class Scorer(HFLM):
    """``HFLM`` that shows no progress, and tokenizes no text that is ``known``, which it adds to."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, known: Known):
        super().__init__(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)
        self._known = known
        self._positions = super().max_length

    @property
    def max_length(self) -> int:
        return self._positions  # asked for at each request, and slow to find out

    def _model_call(self, inps: Tensor, *args: Any, **options: Any) -> Tensor:
        logits = super()._model_call(inps, *args, **options)
        if not logits.isfinite().all():  # lm-eval would call such an answer right or wrong
            raise FloatingPointError("logits are not finite")
        return logits

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **options: Any) -> list[int]:
        if options:
            return super().tok_encode(string, add_special_tokens, **options)
        key = (string, add_special_tokens)
        if key not in self._known.tokens:
            self._known.tokens[key] = super().tok_encode(string, add_special_tokens)
        return self._known.tokens[key]

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        key = (context, continuation)
        if key not in self._known.pairs:
            self._known.pairs[key] = super()._encode_pair(context, continuation)
        return self._known.pairs[key]

    def loglikelihood(self, requests, disable_tqdm=True):
        return super().loglikelihood(requests, disable_tqdm=True)

    def loglikelihood_rolling(self, requests, disable_tqdm=True):
        return super().loglikelihood_rolling(requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests, disable_tqdm=True, override_bs=None):
        return super()._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=override_bs)

    def longer(self, name: str, task) -> int:
        """How many documents of ``task``, whose requests are built, do not fit in the model's context.

        lm-eval cuts those to be continued from the left, and scores those of perplexity tasks in windows.
        """
        if name not in self._known.longer:
            documents = set()
            for request in task.instances:
                most = self.max_length + (len(request.args) > 1)  # the last token of an ending is never fed
                if len(self.tok_encode("".join(filter(_is_text, request.args)))) > most:
                    documents.add(request.doc_id)
            self._known.longer[name] = len(documents)
        return self._known.longer[name]


def _is_text(argument: Any) -> bool:
    return isinstance(argument, str)
