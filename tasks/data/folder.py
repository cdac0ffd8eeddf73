"""The data files in a folder: which split each belongs to, and what stands there in place of one that is not read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable
from pathlib import Path

from tasks.data.readers import SUFFIXES
from tasks.errors import TaskError

_WORDS = {
    "train": "train(ing)?",
    "validation": "val(id(ate|ation)?)?|dev(el|elopment)?|eval(s|uation)?",
    "test": "test(s|ing)?",
}
# Whole words in a name, so that neither "devices" nor "testimonials" is a split; digits may follow.
SPLIT_NAMES = {
    split: re.compile(rf"(?<![a-z])({words})(set|split|data)?(?![a-z])", re.IGNORECASE)
    for split, words in _WORDS.items()
}
# Endings of one file that is packed, and of archives, which may hold other things than data.
PACKED = (".bz2", ".gz", ".lz4", ".lzma", ".xz", ".z", ".zst")
ARCHIVES = (".7z", ".rar", ".tar", ".tbz", ".tbz2", ".tgz", ".txz", ".zip")
OTHER_TABLES = (".arrow", ".feather", ".h5", ".ods", ".orc", ".pickle", ".pkl", ".xls", ".xlsx")  # which are not read


def split_of(name: str) -> str | None:
    """The split that a file's name or, if it says nothing, the name of a folder around it stands for.

    None if no name does, or one stands for several.
    """
    splits = _splits_of(name)
    return splits[0] if len(splits) == 1 else None


def _splits_of(name: str) -> list[str]:
    """The splits named in the last part of a path that names any."""
    return next(filter(None, map(_named, reversed(Path(name).with_suffix("").parts))), [])


def data_files(folder: Path) -> list[str]:
    """Names of the data files in ``folder``, sorted, without hidden ones, which notebooks and file managers leave.

    Links are followed, but no file is listed twice: of two names that lead to it, the one that names a split counts.
    Raises TaskError for what is named as a split and cannot be read, as others would take the place of its texts, and
    for a file named as two splits.
    """
    paths, closed = _below(folder)
    if folder in closed:
        raise TaskError(f"{folder}: cannot be read: Permission denied")
    names = {path: str(path.relative_to(folder)) for path in (*paths, *closed)}
    files: dict[Path, Path] = {}  # by what they are
    for path in sorted(paths, key=lambda path: (split_of(names[path]) is None, path.is_symlink(), path)):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            files.setdefault(path.resolve(), path)
    found = sorted(files.values())
    for path in found:
        if len(splits := _splits_of(names[path])) > 1:
            raise TaskError(f"{path}: its name is that of {' and of '.join(splits)}: rename it, or take it out")
    _check_splits(folder, [*paths, *closed], closed, found)
    return [names[path] for path in found]


def _below(folder: Path) -> tuple[list[Path], list[Path]]:
    """Files and links below ``folder``, nothing hidden, and the folders and links that cannot be looked into.

    Each folder is looked into once, whatever links lead to it, and where it is rather than through a link.
    """
    paths: list[Path] = []
    closed: list[Path] = []
    visited: set[Path] = set()
    folders, links = deque([folder]), deque[Path]()
    while folders or links:
        here = folders.popleft() if folders else links.popleft()
        try:
            inside = sorted(path for path in here.iterdir() if not path.name.startswith("."))
            itself = here.resolve()
        except PermissionError:
            closed.append(here)
            continue
        if itself in visited:
            continue
        visited.add(itself)
        for path in inside:
            try:
                queue = (links if path.is_symlink() else folders) if path.is_dir() else paths
            except PermissionError:
                queue = closed
            queue.append(path)
    return paths, closed


def _check_splits(folder: Path, paths: Iterable[Path], closed: Collection[Path], files: Collection[Path]) -> None:
    """Raise TaskError if one of ``paths`` would be a split but is closed, packed, not read, or a link to nothing.

    What is packed may lie beside its contents: ``files`` are read.
    """
    read = {(split_of(str(file.relative_to(folder))), _bare(file)) for file in files}
    for path in sorted(paths):
        split = split_of(str(path.relative_to(folder)))
        if not split or (split, _bare(path)) in read or path in files:
            continue
        fault = "cannot be read: Permission denied" if path in closed else _not_read(path)
        if fault:
            raise TaskError(f"{path}: {fault}")


def _not_read(path: Path) -> str:
    """Why a path that is named as a split is not read, and what to do; empty if it need not be data."""
    name, suffixes = _bare(path), [suffix.lower() for suffix in path.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    if not path.exists() and last in ("", *SUFFIXES, *PACKED, *ARCHIVES):
        return f"a link that leads nowhere, to {path.readlink()}: mend it, or take it out"
    packed = last in (*PACKED, *ARCHIVES) and not (path.parent / name).is_dir()
    if packed and (_named(name) or last in PACKED or suffixes[0] in SUFFIXES):
        return "packed files are not read: unpack it beside, or take it out of the folder"
    if last in OTHER_TABLES and _named(name):
        return f"such files are not read: save it as {'/'.join(SUFFIXES)}, or take it out of the folder"
    return ""


def _named(word: str) -> list[str]:
    """The splits that are named in ``word``."""
    return [split for split, pattern in SPLIT_NAMES.items() if pattern.search(word)]


def _bare(path: Path) -> str:
    """The name of ``path`` without what it says of its form: the same for a file and for what it is packed in."""
    while path.suffix.lower() in (*PACKED, *ARCHIVES, *SUFFIXES, *OTHER_TABLES):
        path = path.with_suffix("")
    return path.name
