"""lm-eval's model class around a loaded model, for repeated evaluations on the same texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from tasks.harness.endings import EndingBatch, ending_batches, score_endings

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class TokenCache:
    """Tokens of texts so far, which are the same for every model with the same tokenizer."""

    tokens: dict[tuple[str, bool | None], list[int]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], tuple[list[int], list[int]]] = field(default_factory=dict)  # context, continuation
    too_long: dict[str, int] = field(default_factory=dict)  # number of documents that do not fit, by task
    batches: dict[tuple[Any, ...], list[EndingBatch]] = field(default_factory=dict)  # of requests scored together


class Scorer(HFLM):
    """``HFLM`` without progress bars that tokenizes each text once and keeps its tokens in ``cache``."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, cache: TokenCache):
        # The cache takes windows of the same tokens for one, also where they are cut at other places.
        super().__init__(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, logits_cache=False)
        self._cache = cache
        self._positions = super().max_length

    @property
    def max_length(self) -> int:
        return self._positions  # read for each request, and slow to compute

    def _model_call(self, inps: Tensor, *args: Any, **options: Any) -> Tensor:
        logits = super()._model_call(inps, *args, **options)
        if not logits.isfinite().all():  # lm-eval would score such an answer as correct or not
            raise FloatingPointError("logits are not finite")
        return logits

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **options: Any) -> list[int]:
        if options:
            return super().tok_encode(string, add_special_tokens, **options)
        key = (string, add_special_tokens)
        if key not in self._cache.tokens:
            self._cache.tokens[key] = super().tok_encode(string, add_special_tokens)
        return self._cache.tokens[key]

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        key = (context, continuation)
        if key not in self._cache.pairs:
            self._cache.pairs[key] = super()._encode_pair(context, continuation)
        return self._cache.pairs[key]

    def loglikelihood(self, requests, disable_tqdm=True):
        return super().loglikelihood(requests, disable_tqdm=True)

    def loglikelihood_rolling(self, requests, disable_tqdm=True):
        return super().loglikelihood_rolling(requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests, disable_tqdm=True, override_bs=None):
        """Log-likelihoods of endings, with the same inputs as lm-eval but in few operations per batch, not per ending.

        Windows of long texts, which have no text of their own, and encoder-decoders are left to lm-eval.
        """
        texts = tuple(text for text, _, _ in requests)
        if self.backend != "causal" or None in texts:
            return super()._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=override_bs)
        key = (texts, self.batch_size, self.max_length)
        if key not in self._cache.batches:
            pairs = [(context, ending) for _, context, ending in requests]
            self._cache.batches[key] = ending_batches(pairs, self.max_length, self.batch_size)
        return score_endings(self._cache.batches[key], len(requests), self._model_call, self.device, self.softmax_dtype)

    def _model_generate(self, *args: Any, **options: Any) -> Tensor:
        return super()._model_generate(*args, **options, logits_processor=[_Finite()])

    def longest_answer(self, request: Any) -> int:
        """Most tokens of an answer to a ``generate_until`` request, for which lm-eval leaves room in the context."""
        return normalize_gen_kwargs(request.args[1], self.max_gen_toks)["max_gen_toks"]

    def too_long(self, name: str, task) -> int:
        """Number of documents of ``task``, whose requests are built, that do not fit in the model's context.

        lm-eval truncates contexts from the left, and scores documents of perplexity tasks in windows.
        """
        if name not in self._cache.too_long:
            documents = set()
            for request in task.instances:
                most = self.max_length + (len(request.args) > 1)  # the last token of an ending is not an input
                if request.request_type == "generate_until":
                    most = self.max_length - self.longest_answer(request)
                if len(self.tok_encode("".join(filter(_is_text, request.args)))) > most:
                    documents.add(request.doc_id)
            self._cache.too_long[name] = len(documents)
        return self._cache.too_long[name]


class _Finite(LogitsProcessor):
    """Raises FloatingPointError where the next token has a logit that is none; -inf is that of a forbidden one."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if bool((scores.isnan() | scores.isposinf()).any()):
            raise FloatingPointError("logits are not finite")
        return scores


def _is_text(argument: Any) -> bool:
    return isinstance(argument, str)
