"""The files of a data set, or its splits in the library ``datasets``, and which split each belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tasks.data.dataset import SPLITS
from tasks.data.folder import data_files, split_of
from tasks.data.hub import is_saved, saved, streamed
from tasks.data.location import file_of, local
from tasks.data.readers import SUFFIXES, Located, class_names, read
from tasks.errors import TaskError
from tasks.paths import expanded

SHOWN = 4  # most names in a remark
Data = str | Mapping[str, str]  # a file, a folder or an id; or a file for each split


class Part(NamedTuple):
    """One file, or one split of the library ``datasets``."""

    split: str | None  # one of SPLITS, "all" for undivided data, None if its name says nothing
    name: str  # of the file in its folder, or of the split
    classes: list[str]  # names of its integer labels, if it has them
    rows: Iterable[Located]
    header: str = ""  # where its columns are named, if not in every row


def parts_of(data: Data, mirror: str, columns: Sequence[str], label: str = "") -> list[Part]:
    """The parts of ``data``, not read yet; ``columns`` of texts and, if there is one, the label are all they need.

    Raises TaskError if none of them belongs to a split.
    """
    if not isinstance(data, str):
        return [_of_file(split, file_of(file, split), columns, label) for split, file in data.items()]
    path = local(data, mirror)
    if path is None:
        parts = [Part(split_of(split[0]), *split) for split in streamed(data, columns, label)]
    elif path.is_file():
        return [_of_file("all", path, columns, label)]
    elif is_saved(path):
        splits = saved(path, data, columns, label)
        parts = [Part(split_of(split[0]) if split[0] else "all", *split) for split in splits]
    else:
        parts = [_of_file(split_of(name), path / name, columns, label)._replace(name=name) for name in data_files(path)]
        if not any(part.split for part in parts):
            raise TaskError(f"{data}: no {'/'.join(SUFFIXES)} file here is named train, validation (dev) or test")
        if path != expanded(data) and len(several := _configurations(parts)) > 1:  # a copy in a mirror
            raise TaskError(
                f"{data}: its copy, {path}, has training splits of several configurations ({listed(several, ', ')}): "
                f"name one, as in {data}:{several[0]}"
            )
    if not any(part.split for part in parts):
        found = listed([part.name for part in parts])
        raise TaskError(f"{data}: no split here is named train, validation (dev) or test; found: {found}")
    return parts


def _configurations(parts: Sequence[Part]) -> list[str]:
    """The folders that have a training split each, whether the split is a file there or a folder of files; sorted."""
    folders = (Path(part.name).parent.parts for part in parts if part.split == "train")
    return sorted({"/".join(word for word in words if not split_of(word)) for words in folders})


def origins(parts: Sequence[Part], rows: Mapping[str, Sequence[Any]]) -> list[str]:
    """Remarks on the files, or splits of a data set, that were read, and on those that were not.

    rows: those of each split that can be used. Nothing is said of the files of a split without any.
    """
    remarks = [f"read from {part.name}" for part in parts if part.split == "all" and part.name]
    for split in SPLITS:
        names = [part.name for part in parts if part.split == split]
        remarks += [f"{split} is {listed(names)}"] if rows.get(split) and names != [split] else []
    endings = {Path(part.name).suffix for part in parts if part.split}  # a README.txt beside tables is not data
    unread = [part.name for part in parts if part.split is None and Path(part.name).suffix in endings]
    return [*remarks, f"not read, as the name is of no split: {listed(unread)}"] if unread else remarks


def _of_file(split: str | None, file: Path, columns: Sequence[str], label: str) -> Part:
    header = {".csv": f"{file}: header", ".tsv": f"{file}: header", ".parquet": str(file)}.get(file.suffix.lower(), "")
    return Part(split, file.name, class_names(file, label), read(file, (*columns, label) if label else columns), header)


def listed(names: Sequence[str], between: str = " + ") -> str:
    """``names`` as text, with at most ``SHOWN`` of them."""
    shown = between.join(names[:SHOWN])
    return shown + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
