"""Task files of lm-eval, read without loading it: what it would pass over in silence is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import yaml

from tasks.errors import TaskError, first_line
from tasks.harness.data import LOCAL

_lm_eval = find_spec("lm_eval")
assert _lm_eval is not None and _lm_eval.origin is not None  # it is installed with this package
FOLDER = Path(__file__).parent  # with the files of our own tasks
LM_EVAL = Path(_lm_eval.origin).parent / "tasks"
# Folders whose tasks are found, after those of the user, without an index of all that lm-eval has, which takes seconds.
LOOKED_UP = (FOLDER, *sorted({LM_EVAL / task.folder for task in LOCAL.values()}))
IGNORED = {"__pycache__", ".ipynb_checkpoints"}  # folders that lm-eval does not look into
TEXT = "tag:yaml.org,2002:str"


def composed(file: Path) -> yaml.Node | None:
    """The content of a YAML file, in which no tag has been followed. Raises TaskError, with the line."""
    try:
        return yaml.compose(file.read_bytes(), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise TaskError(f"{file}: {where}not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise TaskError(f"{file}: not valid YAML: {first_line(error)}") from error


def check_files(names_or_folders: Sequence[str]) -> None:
    """Check the task files in those that are folders. Raises TaskError, with file and line.

    Errors are a file in the place of a folder; a file that is no YAML, or includes one that does not exist; a task
    whose name is not text, stands beside a group, or is that of another task: only one of the two would be evaluated.
    """
    folders = [place for place in map(Path, dict.fromkeys(names_or_folders)) if place.is_dir()]
    for place in map(Path, names_or_folders):
        if place.is_file():
            raise TaskError(f"{place}: a file; give the folder that it is in, or the name of a task")
    known = dict(_shipped()) if folders else {}
    for file in dict.fromkeys(file for folder in folders for file in _files(folder)):
        for key, value in _fields(file):
            where = f"{file}: line {key.start_mark.line + 1}: "
            if key.value == "include":
                included(file, key, value)
            if key.value != "task" or not isinstance(value, yaml.ScalarNode):
                continue
            if value.tag != TEXT:
                raise TaskError(
                    f"{where}task: {value.value or 'null'} is not a name: expected text, if need be in quotes"
                )
            if any(other.value == "group" for other, _ in _fields(file)):
                raise TaskError(f"{where}task: {value.value} beside a group, which lm-eval reads alone: say tag: NAME")
            if known.setdefault(value.value, file.resolve()) != file.resolve():
                raise TaskError(f"{where}task: {value.value} is also the task in {known[value.value]}: rename one")


def included(file: Path, key: yaml.Node, value: yaml.Node) -> list[Path]:
    """The files that a field ``include`` of ``file`` names. Raises TaskError for one that does not exist."""
    names = value.value if isinstance(value, yaml.SequenceNode) else [value]
    paths = [(file.parent / str(name.value)).resolve() for name in names]  # as lm-eval does: ~ is a name
    for path in paths:
        if not path.is_file():
            raise TaskError(f"{file}: line {key.start_mark.line + 1}: include names {path}, which does not exist")
    return paths


@cache
def _shipped() -> dict[str, Path]:
    """The files of tasks that would be evaluated in place of a user's with the same name."""
    return {
        value.value: file.resolve()
        for folder in LOOKED_UP
        for file in _files(folder)
        for key, value in _fields(file)
        if key.value == "task" and isinstance(value, yaml.ScalarNode)
    }


def _files(folder: Path) -> Iterator[Path]:
    """The files that lm-eval reads, in its order."""
    for file in sorted(folder.glob("**/*.yaml")):
        if file.is_file() and not IGNORED.intersection(file.parts):
            yield file


def _fields(file: Path) -> list[tuple[yaml.Node, yaml.Node]]:
    root = composed(file)
    return root.value if isinstance(root, yaml.MappingNode) else []
