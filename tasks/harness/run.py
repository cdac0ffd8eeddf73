"""Evaluate models, one after another, on tasks of lm-eval, with the value of each metric for each document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from lm_eval.evaluator import evaluate
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tasks.data.labels import short
from tasks.digest import digest_of
from tasks.errors import TaskError, first_line
from tasks.harness.loading import load
from tasks.harness.prepared import PreparedTask, accuracy_metric, check_right_or_wrong, silenced
from tasks.harness.scorer import Scorer, TokenCache
from tasks.harness.segments import WIKITEXT, joined, segment_perplexity, segments_of
from tasks.seeds import drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

NO_FILTER = ",none"
SEED = 1234  # of answers that are drawn: lm-eval's own default


@dataclass(frozen=True)
class Result:
    """Metrics of one model on one task."""

    metrics: dict[str, float]  # by lm-eval's name: acc, acc_norm, word_perplexity
    values: dict[str, list[Any]]  # by metric, of each document: 0 or 1, or log-likelihood and number of words or bytes
    too_long: int  # documents that do not fit in the model's context: truncated from the left, or scored in windows


class Harness:
    """Tasks of lm-eval with their requests, to evaluate any number of models with the same tokenizer."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        folders: Sequence[str | Path] = (),
        mirror: str = "",
        limit: int | None = None,
        own: Mapping[str, Any] | None = None,
        trust: bool = False,
    ):
        """Load the tasks ``names``: ours, lm-eval's own, or those of task files in ``folders``.

        Args:
            mirror: folder with local copies of hub data sets, by id or by a name that ``tasks.harness.data`` knows.
            limit: use only the first ``limit`` documents of each task.
            own: arguments of ``tasks.harness.data.own``, for ``headbench_own_texts``.
            trust: whether task files in ``folders`` may run Python code.

        Raises TaskError for an unknown name, for a task whose documents cannot be loaded, and for one with neither
        accuracy nor perplexity among its metrics.
        """
        self.limit = limit
        self._cache = TokenCache()
        self._wikitext: Tensor | None = None
        self.tasks = load(names, folders, mirror, own or {}, trust)

    def __call__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int = 64
    ) -> dict[str, Result]:
        """Results of ``model`` by task, on its device. ``tokenizer`` must be the same at each call."""
        with silenced(), drawn_from(SEED, model.device):  # leaves no trace in what a method draws
            scorer = Scorer(model, tokenizer, batch_size, self._cache)
            # log_samples would take longer; the tasks keep the values of each sample themselves.
            found = evaluate(scorer, {"tasks": self.tasks}, limit=self.limit, bootstrap_iters=0, log_samples=False)
            results = {
                name: _result(found["results"][name], task, scorer.too_long(name, task))
                for name, task in self.tasks.items()
            }
        if WIKITEXT in results and len(segments := self._segments(tokenizer, scorer.max_length)):
            perplexity = segment_perplexity(model, segments, max(1, batch_size // 2))  # for texts half as long
            results[WIKITEXT].metrics[f"perplexity_{segments.shape[1]}"] = perplexity
        return results

    def _segments(self, tokenizer: PreTrainedTokenizerBase, positions: int) -> Tensor:
        """Token ids of all WikiText documents in segments."""
        if self._wikitext is None:
            pages = (doc["page"] for doc in islice(self.tasks[WIKITEXT].eval_docs, self.limit))
            self._wikitext = segments_of(joined(pages), tokenizer, positions)
        return self._wikitext

    @cached_property
    def guessing_quality(self) -> float:
        """Quality of guessing: the share of choices that are right, averaged over documents, then over tasks.

        If texts are only scored: 1/256, for one of the 256 bytes.
        """
        shares = [
            mean(task.guessing_accuracy(doc) for doc in islice(task.eval_docs, self.limit))
            for task in self.tasks.values()
            if not task.is_perplexity
        ]
        return mean(shares) if shares else 1 / 256

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the definition of each task, of its documents, and of those that examples are drawn from."""
        of_tasks = []
        for name, task in self.tasks.items():
            docs = [_as_text(doc) for doc in islice(task.eval_docs, self.limit)]
            of_tasks.append([name, json.dumps(task.definition, sort_keys=True), docs])
            if task.config.num_fewshot:
                of_tasks[-1].append([_as_text(doc) for doc in task.fewshot_docs()])
        return digest_of(of_tasks)

    def check(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise TaskError for what lm-eval cannot do, or cannot do right, with the documents and with ``model``."""
        with silenced():
            scorer = Scorer(model, tokenizer, 1, self._cache)
            for name, task in self.tasks.items():
                try:
                    task.build_all_requests(limit=self.limit)
                except Exception as error:  # of any kind: a template of the task, or too few examples to draw from
                    raise TaskError(
                        f"{name}: lm-eval cannot make requests of its documents (num_fewshot: "
                        f"{task.config.num_fewshot}): {type(error).__name__}: {first_line(error)}"
                    ) from error
                requests = Counter(request.doc_id for request in task.instances)
                for number, doc in enumerate(islice(task.eval_docs, self.limit)):
                    if not task.target_among_choices(doc):
                        raise TaskError(
                            f"{name}: the target of document {number} is none of its choices: any answer would count "
                            "as wrong"
                        )
                    if metric := accuracy_metric(values := task.values_of_a_guess(doc, requests[number])):
                        check_right_or_wrong(name, metric, number, values[metric])
                for request in task.instances:
                    if request.request_type == "generate_until":
                        _check_answer(name, request, scorer)
                    elif request.request_type == "loglikelihood":
                        _check_ending(name, request, scorer)
                    else:
                        _check_text(name, request)
                if task.is_perplexity and not any(request.args[0] for request in task.instances):
                    raise TaskError(f"{name}: all its texts are empty (doc_to_target)")


def _as_text(doc: Any) -> str:
    return json.dumps(doc, default=str)  # of dates, which JSON does not have


def _check_answer(name: str, request: Any, scorer: Scorer) -> None:
    wanted = scorer.longest_answer(request)
    if wanted >= scorer.max_length:
        raise TaskError(
            f"{name}: it asks for answers of up to {wanted} tokens (max_gen_toks), the model has {scorer.max_length} "
            "positions: lower that in generation_kwargs of a task file of your own, or leave the task out"
        )


def _check_ending(name: str, request: Any, scorer: Scorer) -> None:
    context, ending = request.args
    tokens = scorer._encode_pair(context, ending)[1] if context else scorer.tok_encode(ending, add_special_tokens=False)
    if (length := len(tokens)) > scorer.max_length:
        raise TaskError(
            f"{name}: document {request.doc_id} has an ending of {length} tokens, the model has {scorer.max_length} "
            "positions: lm-eval cannot score that; leave the task out, or use --limit"
        )


def _check_text(name: str, request: Any) -> None:
    if not isinstance(text := request.args[0], str):
        raise TaskError(
            f"{name}: document {request.doc_id} has {short(text)} in place of a text (doc_to_target): perplexity is of "
            "texts"
        )


def _result(metrics: Mapping[str, Any], task: PreparedTask, too_long: int) -> Result:
    filters = list(task.instances[0].filtered_resps)
    documents = len(task.values) // len(filters)
    found: dict[str, float] = {}
    values: dict[str, list[Any]] = {}
    for key, value in metrics.items():
        metric, _, answer_filter = key.partition(",")
        if answer_filter and not metric.endswith("_stderr"):
            name = key.removesuffix(NO_FILTER)
            found[name] = float(value)
            of_filter = task.values[filters.index(answer_filter) * documents :][:documents]
            values[name] = [each[metric] for each in of_filter if metric in each]
    return Result(found, values, too_long)
