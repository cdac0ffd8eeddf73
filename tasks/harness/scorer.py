"""lm-eval's own model class around a model that is there already, for many evaluations of the same texts."""

from __future__ import annotations

from typing import Any

from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedModel, PreTrainedTokenizerFast

Tokens = dict[tuple[str, bool | None], list[int]]


class Scorer(HFLM):
    """``HFLM`` that shows no progress, and tokenizes no text that is in ``tokens``, which it adds to."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, batch_size: int, tokens: Tokens):
        super().__init__(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)
        self._tokens = tokens

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

    def longer(self, task) -> int:
        """How many documents of ``task``, whose requests are built, do not fit in the model's context.

        lm-eval cuts those to be continued from the left, and scores those of perplexity tasks in windows.
        """
        documents = set()
        for request in task.instances:
            most = self.max_length + (len(request.args) > 1)  # the last token of an ending is never fed
            if len(self.tok_encode("".join(filter(_is_text, request.args)))) > most:
                documents.add(request.doc_id)
        return len(documents)


def _is_text(argument: Any) -> bool:
    return isinstance(argument, str)
