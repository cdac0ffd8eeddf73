"""Tasks of lm-eval, found, loaded and kept from one evaluation to the next."""

from __future__ import annotations

import difflib
import inspect
import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from tasks.data.source import resolve
from tasks.digest import digest_of_files
from tasks.errors import TaskError, first_line
from tasks.harness import data

FOLDER = Path(__file__).parent  # of our own tasks' YAML
THEIRS = Path(lm_eval.tasks.__file__).parent
FEWSHOT_SEED = 1234  # lm-eval's own default
OWN = "headbench_own_texts"  # perplexity of texts of one's own
RIGHT = ("acc_norm", "acc", "exact_match")  # metrics that are 0 or 1 for a document, the usual ones first


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

    @property
    def is_perplexity(self) -> bool:
        """Whether the task tells the likelihood of texts, and calls nothing right or wrong."""
        return self.OUTPUT_TYPE == "loglikelihood_rolling"

    def guessed_right(self, doc: Any) -> float:
        """Share of right answers to ``doc`` of one who guesses: one by the number of choices."""
        return 1 / len(self.doc_to_choice(doc)) if self.OUTPUT_TYPE == "multiple_choice" else 0.0

    @property
    def asks(self) -> dict[str, Any]:
        """What the task asks, wherever its documents are, with functions by name and by the code beside them."""
        settings = self.config.to_dict(keep_callable=True)
        places = ("dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "metadata")
        return {name: _lasting(value) for name, value in settings.items() if name not in places}


def names_in(asked: str) -> list[str]:
    """The tasks of the files in a folder, in order; else what was asked for is a task. Raises TaskError for no task."""
    if not Path(asked).is_dir():
        return [asked]
    with quietly():
        names = sorted(TaskManager(include_path=asked, include_defaults=False).all_subtasks)
    if not names:
        raise TaskError(f"{asked}: no task file (YAML with task: NAME) in this folder")
    return names


def load(
    names: Sequence[str], folders: Sequence[str | Path], mirror: str, own: Mapping[str, Any]
) -> dict[str, Prepared]:
    """The tasks ``names`` of ours, of lm-eval or of task files in ``folders``; the rest as ``Harness`` has it."""
    with quietly():
        manager = _manager(names, folders)
        tasks = {name: _load(manager, name, mirror, own) for name in names}
    for name, task in tasks.items():
        metrics = list(task.aggregation())
        if not task.is_perplexity and not right_or_wrong(metrics):
            raise TaskError(f"{name}: none of its metrics ({', '.join(metrics)}) is one of {', '.join(RIGHT)}")
    return tasks


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


def _manager(names: Sequence[str], folders: Sequence[str | Path]) -> TaskManager:
    """The index of the tasks asked for: that of all thousands takes seconds to make."""
    some = [*folders, FOLDER, *sorted({THEIRS / task.folder for task in data.LOCAL.values()})]
    manager = TaskManager(include_path=some, include_defaults=False)
    return manager if set(names) <= set(manager.all_subtasks) else TaskManager(include_path=[*folders, FOLDER])


def right_or_wrong(metrics: Iterable[str]) -> str | None:
    """The metric that says of each document whether it is right: the field reports acc_norm where there is one.

    metrics: by name, as ``exact_match`` or, with the filter that answers went through, ``exact_match,strict-match``.
    """
    plain = {metric.partition(",")[0]: metric for metric in reversed(list(metrics))}  # of several filters the first
    return next((plain[name] for name in RIGHT if name in plain), None)


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


@contextmanager
def quietly() -> Iterator[None]:
    """Keep bars and remarks of lm-eval and datasets to themselves; bars know no other switch."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
