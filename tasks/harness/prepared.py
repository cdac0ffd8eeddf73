"""A task of lm-eval whose documents and requests are reused for one evaluation after another."""

from __future__ import annotations

import inspect
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from lm_eval.api.task import ConfigurableTask

from tasks.digest import digest_of_files
from tasks.errors import TaskError, first_line

FEWSHOT_SEED = 1234  # lm-eval's own default
ACCURACY = ("acc_norm", "acc", "exact_match")  # metrics that are 0 or 1 for a document, in order of preference
LIKELIHOODS = "byte_perplexity"  # of each document of a perplexity task: log-likelihood, and number of bytes


class DocumentsMissing(Exception):
    """The documents of a task cannot be loaded."""


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

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        try:
            super().download(dataset_kwargs, **kwargs)
        except TaskError:
            raise
        except Exception as error:  # of any kind: datasets has no type of its own for all of them
            raise DocumentsMissing(first_line(error)) from error

    @cached_property
    def eval_docs(self):
        return super().eval_docs

    def build_all_requests(self, **options: Any) -> None:
        if self._instances is None:
            super().build_all_requests(**options)
        for request in self._instances:
            request.resps, request.filtered_resps = [], {}
        self.values = []

    def aggregation(self) -> dict[str, Callable[..., Any]]:
        """What makes each metric of all documents; a perplexity that is too large for a float is the largest one.

        That of words may be: a paragraph without spaces is one word.
        """
        return {metric: _finite(function) for metric, function in super().aggregation().items()}

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        values = super().process_results(doc, results)
        self.values.append(values)
        return values

    @property
    def is_perplexity(self) -> bool:
        """Whether the task only scores the likelihood of texts."""
        return self.OUTPUT_TYPE == "loglikelihood_rolling"

    def target_among_choices(self, doc: Any) -> bool:
        """Whether a target of ``doc`` is one of its choices; lm-eval counts any answer as wrong where none is."""
        if self.OUTPUT_TYPE != "multiple_choice":
            return True
        choices = self.doc_to_choice(doc)
        target = self.doc_to_text(doc) if self.multiple_input else self.doc_to_target(doc)
        places = range(len(choices))
        return any(each in (choices if isinstance(each, str) else places) for each in _listed(target))

    def values_of_a_guess(self, doc: Any, requests: int) -> dict[str, Any]:
        """Metrics of ``doc`` if the likelihoods that so many requests ask for were ever lower; none without choices."""
        if self.OUTPUT_TYPE != "multiple_choice":
            return {}
        return super().process_results(doc, [(-1.0 - place, False) for place in range(requests)])

    def guessing_accuracy(self, doc: Any) -> float:
        """Expected accuracy of guessing on ``doc``: the share of choices that are right.

        0 without choices, and where an answer is right only if no other text is likelier (``exact_match``).
        """
        if self.OUTPUT_TYPE != "multiple_choice" or accuracy_metric(self.aggregation()) == "exact_match":
            return 0.0
        target = self.doc_to_text(doc) if self.multiple_input else self.doc_to_target(doc)
        return len(set(_listed(target))) / len(self.doc_to_choice(doc))

    @property
    def definition(self) -> dict[str, Any]:
        """The task's settings without the place of its documents; functions as name and digest of their code."""
        settings = self.config.to_dict(keep_callable=True)
        locations = ("dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "metadata")
        return {name: _stable(value) for name, value in settings.items() if name not in locations}


def accuracy_metric(metrics: Iterable[str]) -> str | None:
    """The metric that is 1 for a correct answer and 0 for others: acc_norm if available, as is usual.

    metrics: names such as ``exact_match`` or, with the filter of answers, ``exact_match,strict-match``.
    """
    by_name = {metric.partition(",")[0]: metric for metric in reversed(list(metrics))}  # the first of several filters
    return next((by_name[name] for name in ACCURACY if name in by_name), None)


def check_right_or_wrong(task: str, metric: str, document: int, value: Any) -> None:
    """Raise TaskError for a document that is right in part."""
    if value not in (0, 1):
        raise TaskError(
            f"{task}: its {metric} of document {document} is {value:.3g}, neither right nor wrong: such tasks cannot "
            "be compared here"
        )


def _finite(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def finite(items: Any) -> Any:
        try:
            return function(items)
        except OverflowError:
            return sys.float_info.max

    return finite


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


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
