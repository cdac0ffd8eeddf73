"""Evaluate one model after another on tasks of lm-eval, and say what each document adds to each metric."""

from __future__ import annotations

import difflib
import inspect
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasks.digest import digest_of, digest_of_files
from tasks.errors import TaskError, first_line
from tasks.harness import data
from tasks.harness.scorer import Known, Scorer
from tasks.source import resolve

FOLDER = Path(__file__).parent  # of our own tasks' YAML
THEIRS = Path(lm_eval.tasks.__file__).parent
FEWSHOT_SEED = 1234  # lm-eval's own default
NO_FILTER = ",none"
OWN = "headbench_own_texts"  # perplexity of texts of one's own
RIGHT = ("acc_norm", "acc", "exact_match")  # metrics that are 0 or 1 for a document, the usual ones first


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
        with _quietly():
            manager = _manager(names, folders)
            self.tasks = {name: _load(manager, name, mirror, own or {}) for name in names}
        for name, task in self.tasks.items():
            if not is_perplexity(task) and not right_or_wrong(_metrics(task)):
                raise TaskError(
                    f"{name}: none of its metrics ({', '.join(_metrics(task))}) is one of {', '.join(RIGHT)}"
                )

    def __call__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int = 64
    ) -> dict[str, Result]:
        """Evaluate ``model`` where it is, by task. ``tokenizer`` has to be the same at each call."""
        with _quietly():
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
            mean(_guess(task, doc) for doc in islice(task.eval_docs, self.limit))
            for task in self.tasks.values()
            if not is_perplexity(task)
        ]
        return mean(shares) if shares else 1 / 256

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what each task asks, and of its documents."""
        return digest_of(
            [
                [name, json.dumps(_settings(task), sort_keys=True), [json.dumps(doc) for doc in docs]]
                for name, task in self.tasks.items()
                for docs in [islice(task.eval_docs, self.limit)]
            ]
        )

    def check(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise TaskError for an ending with more tokens than ``model`` has positions: lm-eval cannot score it."""
        with _quietly():
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


class Prepared(ConfigurableTask):
    """A task of lm-eval that keeps its documents and requests from one evaluation to the next.

    told: the value of each metric for each document in the last evaluation, one filter of answers after the other.
    """

    def __init__(self, config: dict[str, Any]):
        super().__init__(config={key: value for key, value in config.items() if key != "class"})
        self.eval_docs = list(self.eval_docs)  # of an Arrow table, each row would be read anew each time
        self._instances: Any = None  # a list of requests, once they are built
        self.told: list[dict[str, Any]] = []
        if self.config.num_fewshot is None:  # the rest of this is what lm-eval does before it evaluates
            self.set_config("num_fewshot", 0)
        self.set_fewshot_seed(FEWSHOT_SEED)

    @cached_property
    def eval_docs(self):
        return super().eval_docs

    def build_all_requests(self, **options: Any) -> None:
        if self._instances is None:
            super().build_all_requests(**options)
        for request in self._instances:
            request.resps, request.filtered_resps = [], {}
        self.told = []

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        told = super().process_results(doc, results)
        self.told.append(told)
        return told


def names_in(asked: str) -> list[str]:
    """The tasks of the files in a folder, in order; else what was asked for is a task. Raises TaskError for no task."""
    if not Path(asked).is_dir():
        return [asked]
    with _quietly():
        names = sorted(TaskManager(include_path=asked, include_defaults=False).all_subtasks)
    if not names:
        raise TaskError(f"{asked}: no task file (YAML with task: NAME) in this folder")
    return names


def is_perplexity(task: Prepared) -> bool:
    """Whether the task tells the likelihood of texts, and calls nothing right or wrong."""
    return task.OUTPUT_TYPE == "loglikelihood_rolling"


def right_or_wrong(metrics: Iterable[str]) -> str | None:
    """The metric that says of each document whether it is right: the field reports acc_norm where there is one.

    metrics: by name, as ``exact_match`` or, with the filter that answers went through, ``exact_match,strict-match``.
    """
    plain = {metric.partition(",")[0]: metric for metric in reversed(list(metrics))}  # of several filters the first
    return next((plain[name] for name in RIGHT if name in plain), None)


def _metrics(task: Prepared) -> list[str]:
    return list(task.aggregation())


def _guess(task: Prepared, doc: Any) -> float:
    """Share of right answers of one who guesses."""
    return 1 / len(task.doc_to_choice(doc)) if task.OUTPUT_TYPE == "multiple_choice" else 0.0


def _settings(task: Prepared) -> dict[str, Any]:
    """What a task is, but for where its documents are, with functions by name and by the code beside them."""
    settings = task.config.to_dict(keep_callable=True)
    places = ("dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "metadata")
    return {name: _lasting(value) for name, value in settings.items() if name not in places}


def _lasting(value: Any) -> Any:
    """``value`` in words that are the same in every process."""
    if isinstance(value, Mapping):
        return {str(key): _lasting(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_lasting(each) for each in value]
    if not callable(value):
        return repr(value)
    named: Any = value if hasattr(value, "__qualname__") else type(value)
    try:
        folder = Path(inspect.getfile(named)).parent
    except (OSError, TypeError):  # of Python itself
        return f"{named.__module__}.{named.__qualname__}"
    return [named.__qualname__, digest_of_files(sorted(folder.glob("*.py")))]


def _manager(names: Sequence[str], folders: Sequence[str | Path]) -> TaskManager:
    """The index of the tasks asked for: that of all thousands takes seconds to make."""
    some = [*folders, FOLDER, *sorted({THEIRS / task.folder for task in data.LOCAL.values()})]
    manager = TaskManager(include_path=some, include_defaults=False)
    return manager if set(names) <= set(manager.all_subtasks) else TaskManager(include_path=[*folders, FOLDER])


def _load(manager: TaskManager, name: str, mirror: str, own: Mapping[str, Any]) -> Prepared:
    if name not in manager.all_subtasks:
        if name in manager.all_tasks:
            raise TaskError(f"{name}: a group of tasks; name the tasks that you want of it")
        near = difflib.get_close_matches(name, manager.all_subtasks, n=1)
        raise TaskError(f"{name}: lm-eval has no such task" + (f"; did you mean {near[0]}?" if near else ""))
    config = manager.task_index[name].cfg or {}
    if "class" in config:
        raise TaskError(f"{name}: a task with code of its own, which cannot be kept from model to model")
    place = config.get("dataset_path") or ""
    override: dict[str, Any] = {}
    if name == OWN:
        override = {"dataset_kwargs": dict(own)}
    elif name in data.LOCAL and (path := data.LOCAL[name].find(name, place, mirror)):
        override = {
            "custom_dataset": data.local,
            "dataset_kwargs": {"path": str(path), "task": name},
            "training_split": None,  # of use for few-shot prompts only
        }
    elif place and mirror and (path := resolve(place, mirror)) != Path(place):
        override = {"dataset_path": str(path)}
    # A group is how lm-eval lets one take a task of its own with some fields changed.
    member = {"task": name, "class": Prepared, **override}
    try:
        return manager.load({"group": "chosen", "task": [member]})["tasks"][name]
    except TaskError:
        raise
    except Exception as error:
        folder = f", or a folder {' or '.join(data.LOCAL[name].names(name))} there" if name in data.LOCAL else ""
        raise TaskError(
            f"{name}: its documents ({place}) cannot be had ({first_line(error)}); "
            f"give a local copy, for instance as {place} in a folder given by --mirror DIR{folder}"
        ) from error


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


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep bars and remarks of lm-eval and datasets to themselves; bars know no other switch."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
