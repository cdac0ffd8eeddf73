"""Local documents for the tasks of lm-eval: generated, or read from files.

The functions are used as ``custom_dataset`` in the YAML of tasks; lm-eval calls them with the task's ``metadata`` and
``dataset_kwargs``. Nothing is downloaded or copied to a cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset, DatasetDict

from tasks.builtin.abilities import documents
from tasks.data.folder import SPLIT_NAMES
from tasks.data.location import resolve
from tasks.data.parts import Data, listed
from tasks.data.readers import SUFFIXES, read, whole_text
from tasks.data.source import load_texts
from tasks.data.splits import limited
from tasks.errors import TaskError

HELD_OUT = ("test", "validation")
UNLABELLED_TEST = ("validation", "test")  # of tasks whose original test split has no labels
TEXTS = 100  # whole documents for perplexity
Row = dict[str, Any]


def abilities(ability: str, **_: Any) -> DatasetDict:
    """Questions of one built-in ability: a context, four endings, and the index of the correct one."""
    return _splits(
        {
            split: [
                {"context": question.context, "endings": list(question.endings), "label": question.label}
                for question in documents()[split]
                if question.ability == ability
            ]
            for split in HELD_OUT
        }
    )


def texts(**_: Any) -> DatasetDict:
    """Whole built-in documents, the first hundred of each split."""
    return _splits({split: [{"text": each.text} for each in documents()[split][:TEXTS]] for split in HELD_OUT})


def own(data: Data, columns: Sequence[str], mirror: str, limit: int, **_: Any) -> DatasetDict:
    """The user's texts: the test split that ``tasks.data.source.load_texts`` reads. Raises TaskError."""
    texts = load_texts(data, columns, mirror)
    texts = limited(texts, limit) if limit else texts
    return _splits({"test": [{"text": example.texts[0]} for example in texts.test]})


def local(path: str, task: str, **_: Any) -> DatasetDict:
    """Documents of lm-eval's own ``task`` from ``path``, with the columns of the original, for either held-out split.

    ``path`` is a file, or a folder with files named test or validation, of which those of the split that lm-eval would
    use are read or, failing these, those of the other. Raises TaskError.
    """
    kind = LOCAL[task]
    files = _held_out(Path(path), kind, task)
    located = (each for file in files for each in read(file))
    rows = _pages(files) if kind.suffix else [_original(row, kind, where) for where, row in located]
    return _splits(dict.fromkeys(HELD_OUT, rows))


class Local(NamedTuple):
    """Plain files with the documents of a task of lm-eval."""

    folder: str  # of lm-eval's YAML
    columns: tuple[str, ...]  # of the original, which are used as they are
    plain: tuple[str, ...]  # columns of plain files: a question, its choices, the number of the correct one
    original: Callable[[Any], Row] = lambda row: row  # from a plain row to the original columns
    suffix: str = ""  # of files that are not tables
    separator: str = ""  # of the two parts of a question
    choices: int | None = None  # how many there have to be
    splits: tuple[str, ...] = HELD_OUT  # to test on: the first that is there

    def names(self, task: str) -> tuple[str, ...]:
        """Possible names of a folder with documents of ``task``."""
        return (task, f"lm_{task}2") if self.suffix else (task, f"{task}_val")

    def find(self, task: str, place: str, mirror: str) -> Path | None:
        """Path in ``mirror`` of the documents of ``task``, which are ``place`` on the hub; None if there is none."""
        if not mirror:
            return None
        places = [resolve(place, mirror), *(Path(mirror) / name for name in self.names(task))]
        return next((path for path in places if path.exists()), None)

    def find_plain(self, task: str, place: str, mirror: str) -> Path | None:
        """As ``find``, but for a copy of the hub's folder, with its tables in folders there, which datasets reads."""
        path = self.find(task, place, mirror)
        if path is not None and path.is_dir() and path == resolve(place, mirror):
            return path if _files_of_a_split(path, self, task) else None
        return path


def _hellaswag(row: Row) -> Row:
    # Plain files do not say where ctx_b begins, which lm-eval capitalizes.
    activity, _, context = row["ctx"].partition(": ")
    return {**row, "activity_label": activity, "ctx_a": context, "ctx_b": "", "label": str(row["label"])}


def _piqa(row: Row) -> Row:
    return {"goal": row["goal"], "sol1": row["choices"][0], "sol2": row["choices"][1], "label": row["label"]}


def _arc(row: Row) -> Row:
    labels = [chr(ord("A") + index) for index in range(len(row["choices"]))]
    choices = {"text": row["choices"], "label": labels}
    return {"question": row["question"], "choices": choices, "answerKey": labels[row["label"]]}


def _winogrande(row: Row) -> Row:
    first, second = row["choices"]
    return {"sentence": row["question"], "option1": first, "option2": second, "answer": str(row["label"] + 1)}


_ARC = Local("arc", ("question", "choices", "answerKey"), ("question", "choices", "label"), _arc)
LOCAL = {
    "hellaswag": Local(
        "hellaswag",
        ("activity_label", "ctx_a", "ctx_b", "endings", "label"),
        ("ctx", "endings", "label"),
        _hellaswag,
        separator=": ",
        splits=UNLABELLED_TEST,
    ),
    "piqa": Local(
        "piqa",
        ("goal", "sol1", "sol2", "label"),
        ("goal", "choices", "label"),
        _piqa,
        choices=2,
        splits=UNLABELLED_TEST,
    ),
    "arc_easy": _ARC,
    "arc_challenge": _ARC,
    "winogrande": Local(
        "winogrande",
        ("sentence", "option1", "option2", "answer"),
        ("question", "choices", "label"),
        _winogrande,
        choices=2,
        splits=UNLABELLED_TEST,
    ),
    "wikitext": Local("wikitext", ("page",), (), suffix=".txt"),
}


def _original(row: Row, task: Local, where: str) -> Row:
    if all(column in row for column in task.columns):
        return dict(row)
    if all(column in row for column in task.plain):
        return task.original(_checked(row, task, where))
    raise TaskError(f"{where}: expected the columns {', '.join(task.columns)}, or {', '.join(task.plain)}")


def _checked(row: Row, task: Local, where: str) -> Row:
    """A plain row, with the number of the correct choice as an int. Raises TaskError for one that asks nothing."""
    question, choices, label = task.plain
    texts, number = row[choices], row[label]
    if not isinstance(row[question], str):
        raise TaskError(f"{where}: {question} {row[question]!r}: expected text")
    if task.separator not in row[question]:
        raise TaskError(f"{where}: {question} {row[question]!r}: expected ACTIVITY{task.separator}TEXT")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TaskError(f"{where}: {choices}: expected a list of texts")
    if len(texts) < 2 or task.choices not in (None, len(texts)):
        raise TaskError(f"{where}: {choices}: expected {task.choices or 'two or more'} texts, found {len(texts)}")
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if not isinstance(number, int) or not 0 <= number < len(texts):
        raise TaskError(
            f"{where}: {label} {number!r}: expected the number of the correct one, from 0 to {len(texts) - 1}"
        )
    return {**row, label: number}


def _pages(files: Sequence[Path]) -> list[Row]:
    """Articles of WikiText files: each begins with a line `` = Title = ``, its sections with more equals signs."""
    *others, last = map(whole_text, files)
    text = "".join([*(other if other.endswith("\n") else f"{other}\n" for other in others), last])
    starts = [found.start() for found in re.finditer(r"^ = [^=\n](.*[^=\n])? = $", text, re.MULTILINE)]
    if not starts:
        where = listed([str(file) for file in files])
        raise TaskError(f'{where}: contains no document; one begins with a line such as " = Title = ", spaces and all')
    return [{"page": text[start:end]} for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _held_out(path: Path, kind: Local, task: str) -> list[Path]:
    """The files in ``path`` to test on, at least one. Raises TaskError."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TaskError(f"{path}: no such file or folder")
    if files := _files_of_a_split(path, kind, task):
        return files
    raise TaskError(f"{path}: no {kind.suffix or '/'.join(SUFFIXES)} file here is named test or validation")


def _files_of_a_split(folder: Path, kind: Local, task: str) -> list[Path]:
    """The files in ``folder`` itself to test on, in order: the first of a split, and those that are named as it is.

    These differ in numbers alone; others may be copies of it. Files that name another task with such files, as the two
    of ARC, are left out, and so are hidden ones, which file managers leave.
    """
    suffixes = (kind.suffix,) if kind.suffix else SUFFIXES
    others = {name.rpartition("_")[2] for name, each in LOCAL.items() if each is kind and name != task}
    files = [
        file
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in suffixes
        and file.name[0] != "."
        and not any(other in file.stem.lower() for other in others)
    ]
    for split in kind.splits:
        if named := [file for file in files if SPLIT_NAMES[split].search(file.stem)]:
            own = [file for file in named if task.rpartition("_")[2] in file.stem.lower()] or named
            return [file for file in own if _unnumbered(file) == _unnumbered(own[0])]
    return []


def _unnumbered(file: Path) -> str:
    return re.sub(r"\d+", "0", file.name.lower())


def _splits(rows: dict[str, list[Row]]) -> DatasetDict:
    return DatasetDict({split: Dataset.from_list(each) for split, each in rows.items()})
