"""Evaluate one model after another on tasks of lm-eval, and say what each document adds to each metric."""

from __future__ import annotations

import difflib
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tasks.errors import TaskError, first_line
from tasks.harness import data
from tasks.harness.scorer import Scorer, Tokens
from tasks.source import resolve

FOLDER = Path(__file__).parent  # of our own tasks' YAML
THEIRS = Path(lm_eval.tasks.__file__).parent
FEWSHOT_SEED = 1234  # lm-eval's own default
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
        local: Mapping[str, str] | None = None,
        mirror: str = "",
        limit: int | None = None,
    ):
        """Load the tasks ``names``, ours or lm-eval's own, as lm-eval has them.

        Args:
            local: file or folder that a task's documents are read from; see ``tasks.harness.data``.
            mirror: folder with local copies of hub data sets, by their id.
            limit: only that many documents of each task, the first.

        Raises TaskError for an unknown name, and for a task whose documents cannot be had.
        """
        self.limit = limit
        self._tokens: Tokens = {}
        with _quietly():
            manager = _manager(names)
            self.tasks = {name: _load(manager, name, (local or {}).get(name, ""), mirror) for name in names}

    def __call__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, batch_size: int = 64
    ) -> dict[str, Result]:
        """Evaluate ``model`` where it is, by task. ``tokenizer`` has to be the same at each call."""
        with _quietly():
            scorer = Scorer(model, tokenizer, batch_size, self._tokens)
            found = evaluate(scorer, {"tasks": self.tasks}, limit=self.limit, bootstrap_iters=0)
            return {
                name: _result(found["results"][name], found["samples"][name], scorer.longer(task))
                for name, task in self.tasks.items()
            }


class Prepared(ConfigurableTask):
    """A task of lm-eval that keeps its documents and requests from one evaluation to the next."""

    def __init__(self, config: dict[str, Any]):
        super().__init__(config={key: value for key, value in config.items() if key != "class"})
        self._instances: Any = None  # a list of requests, once they are built
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


def _manager(names: Sequence[str]) -> TaskManager:
    """The index of the tasks asked for: that of all thousands takes seconds to make."""
    folders = [FOLDER, *sorted({THEIRS / task.folder for task in data.LOCAL.values()})]
    manager = TaskManager(include_path=folders, include_defaults=False)
    return manager if set(names) <= set(manager.all_subtasks) else TaskManager(include_path=FOLDER)


def _load(manager: TaskManager, name: str, path: str, mirror: str) -> Prepared:
    if name not in manager.all_subtasks:
        if name in manager.all_tasks:
            raise TaskError(f"{name}: a group of tasks; name the tasks that you want of it")
        near = difflib.get_close_matches(name, manager.all_subtasks, n=1)
        raise TaskError(f"{name}: lm-eval has no such task" + (f"; did you mean {near[0]}?" if near else ""))
    config = manager.task_index[name].cfg or {}
    if "class" in config:
        raise TaskError(f"{name}: a task with code of its own, which cannot be kept from model to model")
    place = config.get("dataset_path")
    copy = str(resolve(place, mirror)) if place and mirror else place
    override: dict[str, Any] = {}
    if name in data.LOCAL and (path or copy != place):
        override = {
            "custom_dataset": data.local,
            "dataset_kwargs": {"path": path or copy, "task": name},
            "training_split": None,  # of use for few-shot prompts only
        }
    elif path or copy != place:
        override = {"dataset_path": path or copy}
    # A group is how lm-eval lets one take a task of its own with some fields changed.
    member = {"task": name, "class": Prepared, **override}
    try:
        return manager.load({"group": "chosen", "task": [member]})["tasks"][name]
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(
            f"{name}: its documents ({path or copy}) cannot be had ({first_line(error)}); "
            f"give a local copy, for instance as {place} in a folder given by --mirror DIR"
        ) from error


def _result(metrics: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], longer: int) -> Result:
    found: dict[str, float] = {}
    values: dict[str, list[Any]] = {}
    for key, value in metrics.items():
        metric, _, kept = key.partition(",")
        if kept and not metric.endswith("_stderr"):
            name = key.removesuffix(NO_FILTER)
            found[name] = float(value)
            values[name] = [sample[metric] for sample in samples if sample["filter"] == kept and metric in sample]
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
