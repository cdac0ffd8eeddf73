"""Tasks of lm-eval: found, loaded, and reused for one evaluation after another."""

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
from tasks.harness.trust import check_code, confine_templates

FOLDER = Path(__file__).parent  # with the YAML files of our own tasks
LM_EVAL = Path(lm_eval.tasks.__file__).parent
FEWSHOT_SEED = 1234  # lm-eval's own default
OWN = "headbench_own_texts"  # perplexity of the user's texts
ACCURACY = ("acc_norm", "acc", "exact_match")  # metrics that are 0 or 1 for a document, in order of preference


class PreparedTask(ConfigurableTask):
    """A task of lm-eval that keeps its documents and requests for the next evaluation.

    values: of each metric for each document in the last evaluation, one filter of answers after another.
    """

    def __init__(self, config: dict[str, Any]):
        super().__init__(config={key: value for key, value in config.items() if key != "class"})
        self.eval_docs = list(self.eval_docs)  # reading rows of an Arrow table again each time is slow
        self._instances: Any = None  # the list of requests, when they are built
        self.values: list[dict[str, Any]] = []
        if self.config.num_fewshot is None:  # from here on, what lm-eval does before it evaluates
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
        self.values = []

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        values = super().process_results(doc, results)
        self.values.append(values)
        return values

    @property
    def is_perplexity(self) -> bool:
        """Whether the task only scores the likelihood of texts."""
        return self.OUTPUT_TYPE == "loglikelihood_rolling"

    def guessing_accuracy(self, doc: Any) -> float:
        """Expected accuracy of guessing on ``doc``: 1 / number of choices."""
        return 1 / len(self.doc_to_choice(doc)) if self.OUTPUT_TYPE == "multiple_choice" else 0.0

    @property
    def definition(self) -> dict[str, Any]:
        """The task's settings without the place of its documents; functions as name and digest of their code."""
        settings = self.config.to_dict(keep_callable=True)
        locations = ("dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "metadata")
        return {name: _stable(value) for name, value in settings.items() if name not in locations}


def names_in(name_or_folder: str) -> list[str]:
    """Sorted names of the tasks in a folder; a name that is not a folder is a task. Raises TaskError for no task."""
    if not Path(name_or_folder).is_dir():
        return [name_or_folder]
    with silenced():
        names = sorted(TaskManager(include_path=name_or_folder, include_defaults=False).all_subtasks)
    if not names:
        raise TaskError(f"{name_or_folder}: no task file (YAML with task: NAME) in this folder")
    return names


def load(
    names: Sequence[str], folders: Sequence[str | Path], mirror: str, own: Mapping[str, Any], trust: bool
) -> dict[str, PreparedTask]:
    """The tasks ``names``: ours, lm-eval's, or those of task files in ``folders``. For the rest see ``Harness``."""
    if not trust:
        check_code(folders)
    confine_templates()
    with silenced():
        manager = _manager(names, folders)
        tasks = {name: _load(manager, name, mirror, own) for name in names}
    for name, task in tasks.items():
        metrics = list(task.aggregation())
        if not task.is_perplexity and not accuracy_metric(metrics):
            raise TaskError(f"{name}: none of its metrics ({', '.join(metrics)}) is one of {', '.join(ACCURACY)}")
    return tasks


def _load(manager: TaskManager, name: str, mirror: str, own: Mapping[str, Any]) -> PreparedTask:
    if name not in manager.all_subtasks:
        if name in manager.all_tasks:
            raise TaskError(f"{name}: a group of tasks: name the tasks of it that you want")
        near = difflib.get_close_matches(name, manager.all_subtasks, n=1)
        raise TaskError(f"{name}: lm-eval has no such task" + (f"; did you mean {near[0]}?" if near else ""))
    config = manager.task_index[name].cfg or {}
    if "class" in config:
        raise TaskError(f"{name}: a task with its own class, which cannot be reused for several models")
    place = config.get("dataset_path") or ""
    override: dict[str, Any] = {}
    if name == OWN:
        override = {"dataset_kwargs": dict(own)}
    elif name in data.LOCAL and (path := data.LOCAL[name].find(name, place, mirror)):
        override = {
            "custom_dataset": data.local,
            "dataset_kwargs": {"path": str(path), "task": name},
            "training_split": None,  # only used for few-shot prompts
        }
    elif place and mirror and (path := resolve(place, mirror)) != Path(place):
        override = {"dataset_path": str(path)}
    # A group is lm-eval's way to load one of its tasks with some fields changed.
    member = {"task": name, "class": PreparedTask, **override}
    try:
        return manager.load({"group": "chosen", "task": [member]})["tasks"][name]
    except TaskError:
        raise
    except Exception as error:
        folder = f", or a folder {' or '.join(data.LOCAL[name].names(name))} there" if name in data.LOCAL else ""
        raise TaskError(
            f"{name}: its documents ({place}) cannot be loaded ({first_line(error)}); "
            f"give a local copy, for instance as {place} in a folder given by --mirror DIR{folder}"
        ) from error


def _manager(names: Sequence[str], folders: Sequence[str | Path]) -> TaskManager:
    """An index with the tasks ``names``; one of all tasks of lm-eval takes seconds to make."""
    some = [*folders, FOLDER, *sorted({LM_EVAL / task.folder for task in data.LOCAL.values()})]
    manager = TaskManager(include_path=some, include_defaults=False)
    return manager if set(names) <= set(manager.all_subtasks) else TaskManager(include_path=[*folders, FOLDER])


def accuracy_metric(metrics: Iterable[str]) -> str | None:
    """The metric that is 1 for a correct answer and 0 for others: acc_norm if available, as is usual.

    metrics: names such as ``exact_match`` or, with the filter of answers, ``exact_match,strict-match``.
    """
    by_name = {metric.partition(",")[0]: metric for metric in reversed(list(metrics))}  # the first of several filters
    return next((by_name[name] for name in ACCURACY if name in by_name), None)


def _stable(value: Any) -> Any:
    """``value`` as text that is the same in every process."""
    if isinstance(value, Mapping):
        return {str(key): _stable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_stable(each) for each in value]
    if not callable(value):
        return repr(value)
    named: Any = value if hasattr(value, "__qualname__") else type(value)
    try:
        folder = Path(inspect.getfile(named)).parent
    except (OSError, TypeError):  # part of Python itself
        return f"{named.__module__}.{named.__qualname__}"
    return [named.__qualname__, digest_of_files(sorted(folder.glob("*.py")))]


@contextmanager
def silenced() -> Iterator[None]:
    """Silence progress bars and warnings of lm-eval and datasets; bars have no other switch."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
