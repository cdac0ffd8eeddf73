"""lm-eval's own model class around a model that is there already, for many evaluations of the same texts."""

from __future__ import annotations

from typing import Any

from lm_eval.models.huggingface import HFLM
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

Tokens = dict[tuple[str, bool | None], list[int]]


class Scorer(HFLM):
    """``HFLM`` that shows no progress, and tokenizes no text that is in ``tokens``, which it adds to.

    longer: documents that do not fit, by task, as far as they are counted.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: int,
        tokens: Tokens,
        longer: dict[str, int],
    ):
        super().__init__(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)
        self._tokens, self._longer = tokens, longer
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
        if key not in self._tokens:
            self._tokens[key] = super().tok_encode(string, add_special_tokens)
        return self._tokens[key]

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
        if name not in self._longer:
            documents = set()
            for request in task.instances:
                most = self.max_length + (len(request.args) > 1)  # the last token of an ending is never fed
                if len(self.tok_encode("".join(filter(_is_text, request.args)))) > most:
                    documents.add(request.doc_id)
            self._longer[name] = len(documents)
        return self._longer[name]


def _is_text(argument: Any) -> bool:
    return isinstance(argument, str)
