"""Evaluate one model after another on tasks of lm-eval, and say what each document adds to each metric."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from lm_eval.evaluator import evaluate
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasks.digest import digest_of
from tasks.errors import TaskError
from tasks.harness.prepared import Prepared, load, quietly
from tasks.harness.scorer import Known, Scorer

NO_FILTER = ",none"


@dataclass(frozen=True)
class Result:
    """What one model is worth on one task."""

    metrics: dict[str, float]  # as lm-eval gives them, by name: acc, acc_norm, word_perplexity
    values: dict[str, list[Any]]  # by metric, of each document: 0 or 1, or log-likelihood and number of words or bytes
    longer: int  # documents that do not fit in the model's context: cut from the left, or scored in windows


class Harness:
    """Tasks of lm-eval with their requests, to evaluate any number of models with one tokenizer."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        folders: Sequence[str | Path] = (),
        mirror: str = "",
        limit: int | None = None,
        own: Mapping[str, Any] | None = None,
    ):
        """Load the tasks ``names``, ours, lm-eval's own or those of task files in ``folders``, as lm-eval has them.

        Args:
            mirror: folder with local copies of hub data sets, by their id or as ``tasks.harness.data`` has them.
            limit: only that many documents of each task, the first.
            own: arguments of ``tasks.harness.data.own``, for ``headbench_own_texts``.

        Raises TaskError for an unknown name, for a task whose documents cannot be had, and for one that calls no
        document right or wrong and tells no likelihood.
        """
        self.limit = limit
        self._known = Known()
        self.tasks = load(names, folders, mirror, own or {})

    def __call__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int = 64
    ) -> dict[str, Result]:
        """Evaluate ``model`` where it is, by task. ``tokenizer`` has to be the same at each call."""
        with quietly():
            scorer = Scorer(model, tokenizer, batch_size, self._known)
            # Of its samples only the values are wanted, which the tasks keep; with all it says of them it takes longer.
            found = evaluate(scorer, {"tasks": self.tasks}, limit=self.limit, bootstrap_iters=0, log_samples=False)
            return {
                name: _result(found["results"][name], task, scorer.longer(name, task))
                for name, task in self.tasks.items()
            }

    @cached_property
    def chance(self) -> float:
        """Quality of guessing: one by the number of choices, averaged over documents, then over tasks.

        Where there are only texts, one of the 256 bytes.
        """
        shares = [
            mean(task.guessed_right(doc) for doc in islice(task.eval_docs, self.limit))
            for task in self.tasks.values()
            if not task.is_perplexity
        ]
        return mean(shares) if shares else 1 / 256

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what each task asks, and of its documents."""
        return digest_of(
            [
                [name, json.dumps(task.asks, sort_keys=True), [json.dumps(doc) for doc in docs]]
                for name, task in self.tasks.items()
                for docs in [islice(task.eval_docs, self.limit)]
            ]
        )

    def check(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise TaskError for an ending with more tokens than ``model`` has positions: lm-eval cannot score it."""
        with quietly():
            scorer = Scorer(model, tokenizer, 1, self._known)
            for name, task in self.tasks.items():
                task.build_all_requests(limit=self.limit)
                for request in task.instances:
                    if request.request_type != "loglikelihood" or not request.args[0]:
                        continue
                    if (length := len(scorer._encode_pair(*request.args)[1])) > scorer.max_length:
                        raise TaskError(
                            f"{name}: document {request.doc_id} has an ending of {length} tokens, the model has "
                            f"{scorer.max_length} positions: lm-eval cannot score that; leave the task out, or use "
                            "--limit"
                        )


def _result(metrics: Mapping[str, Any], task: Prepared, longer: int) -> Result:
    filters = list(task.instances[0].filtered_resps)
    documents = len(task.told) // len(filters)
    found: dict[str, float] = {}
    values: dict[str, list[Any]] = {}
    for key, value in metrics.items():
        metric, _, kept = key.partition(",")
        if kept and not metric.endswith("_stderr"):
            name = key.removesuffix(NO_FILTER)
            found[name] = float(value)
            told = task.told[filters.index(kept) * documents :][:documents]
            values[name] = [each[metric] for each in told if metric in each]
    return Result(found, values, longer)
