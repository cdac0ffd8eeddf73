"""Texts, with or without labels, from files (JSONL, CSV, Parquet, text), a folder of them, or the hub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.hub import is_saved, saved, streamed
from tasks.data.labels import as_numbers, is_unicode, label_of, short
from tasks.data.packages import PREFIX, folder_in_package
from tasks.data.readers import ROW, SUFFIXES, Located, class_names, read
from tasks.data.splits import Row, UnknownLabel, disjoint
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
SHOWN = 4  # most names in a remark
Data = str | Mapping[str, str]  # a file, a folder or an id; or a file for each split


class Part(NamedTuple):
    """One file, or one split of the library ``datasets``."""

    split: str | None  # one of SPLITS, "all" for undivided data, None if its name says nothing
    name: str  # of the file in its folder, or of the split
    classes: list[str]  # names of its integer labels, if it has them
    rows: Iterable[Located]
    header: str = ""  # where its columns are named, if not in every row


def resolve(name: str, mirror: str = "") -> Path:
    """The local path of ``name``: itself, or its copy in the mirror (``ORG/NAME``, ``ORG--NAME`` or ``NAME``).

    A configuration, ``NAME:CONFIGURATION``, is a folder in that copy; ``pypi:PACKAGE`` is the model folder in an
    installed package. A path that does not exist means that ``name`` has to come from the hub. Raises TaskError for a
    mirror that is not a folder, and for a package without a model.
    """
    if name.startswith(PREFIX):
        return folder_in_package(name)
    given = Path(name).expanduser()
    if given.exists() or not mirror:
        return given
    if not Path(mirror).is_dir():
        raise TaskError(f"--mirror {mirror}: no such folder")
    name, _, configuration = name.partition(":")
    places = [Path(mirror) / place / configuration for place in (name, name.replace("/", "--"), name.split("/")[-1])]
    return next((place for place in places if place.exists()), given)


def local(data: str, mirror: str = "") -> Path | None:
    """The file or folder of ``data``; None where it has to come from the hub.

    Raises TaskError for a file or folder that is not there, and as ``resolve`` does.
    """
    path = resolve(data, mirror)
    if path.exists():
        return path
    if path.suffix.lower() in SUFFIXES or is_path(data):
        raise TaskError(f"{data}: no such file or folder")
    return None


def file_of(name: str, split: str, mirror: str) -> Path:
    """The path of the file ``name`` of one split. Raises TaskError."""
    path = resolve(name, mirror)
    if not path.is_file():
        raise TaskError(f"--{split} {name}: {'expected a file, not a folder' if path.is_dir() else 'no such file'}")
    return path


def is_path(name: str) -> bool:
    """Whether ``name`` can only be a path: no hub id looks like that."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def short_name(path_or_id: str) -> str:
    """A path, an id or a package without what leads to it: the same wherever a copy of it is."""
    path = Path(path_or_id.removeprefix(PREFIX)).expanduser()
    return path.name if path.name not in ("", "..") else path.resolve().name


def load(data: Data, columns: Sequence[str], label: str, *, labels: Sequence[str] = (), mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits (see ``tasks.data.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (missing, blank or -1, as number or text) are
    dropped; white space around labels is removed, and whole numbers written as text are numbers. The remarks say which
    files were read and what was dropped. Raises TaskError, in one line, for anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    known: list[str] = []
    dropped: Counter[str] = Counter()
    places: dict[str | int, str] = {}
    parts = _parts(data, mirror, columns, label)
    for part in parts:
        if part.split:
            known = known or part.classes
            rows.setdefault(part.split, []).extend(_rows(part, columns, label, dropped, places))
    if not known:
        rows, places = as_numbers(rows, places)
    try:
        found = disjoint(name_of(data, mirror), rows, labels or known, where_of(data), places=places)
    except UnknownLabel:
        raise
    except TaskError as error:
        unlabelled = "; ".join(_unlabelled(Counter({"-1": dropped["-1"]}), ()))
        raise TaskError("; ".join(filter(None, (str(error), unlabelled)))) from error
    return replace(found, remarks=(*_origins(parts), *_unlabelled(dropped, found.labels), *found.remarks))


def load_texts(data: Data, columns: Sequence[str], mirror: str = "", *, only_train: bool = False) -> Dataset:
    """Read ``data`` into three disjoint splits of texts, all of one class; several columns are joined by line breaks.

    Rows without any text are dropped. With ``only_train`` nothing is taken from the training split for the other two,
    which may be empty. The remarks say which files were read and what was dropped. Raises TaskError, in one line, for
    anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    empty = 0
    parts = _parts(data, mirror, columns)
    for part in parts:
        for where, row in part.rows if part.split else ():
            _check_columns(part, where, row, {"--text": columns})
            filled = [column for column in columns if str("" if row[column] is None else row[column]).strip()]
            if lines := [_text(row[column], column, where) for column in filled]:
                rows.setdefault(str(part.split), []).append((("\n".join(lines),), 0))
            else:
                empty += 1
    dropped = [f"{empty} {'row' if empty == 1 else 'rows'} without text dropped"] if empty else []
    found = disjoint(name_of(data, mirror), rows, ("text",), where_of(data), only_train=only_train)
    return replace(found, remarks=(*_origins(parts), *dropped, *found.remarks))


def load_pairs(data: Data, columns: Sequence[str], mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits of pairs, such as texts and their translations, all of one class.

    columns: of both texts, or their languages in a column ``translation`` that holds a text by language, as data sets
        on the hub have it.

    A first text that is in a later split too is dropped, whatever its second. The remarks say which files were read and
    what was dropped. Raises TaskError, in one line, for anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    parts = _parts(data, mirror, columns)
    for part in parts:
        for where, row in part.rows if part.split else ():
            inside: Any = row.get("translation")
            if isinstance(inside, dict) and not set(columns) & set(row):
                where, part, row = f"{where}: translation", part._replace(header=""), inside
            _check_columns(part, where, row, {"--text": columns})
            texts = tuple(_text(row[column], column, where) for column in columns)
            rows.setdefault(str(part.split), []).append((texts, 0))
    found = disjoint(name_of(data, mirror), rows, ("text",), where_of(data))
    later: set[str] = set()
    repeats: list[str] = []
    left: dict[str, Any] = {}
    for split in reversed(SPLITS):
        given = getattr(found, split)
        kept = tuple(example for example in given if example.texts[0] not in later)
        later |= {example.texts[0] for example in kept}
        if gone := len(given) - len(kept):
            repeats.append(f"{gone} more of {split} dropped: with the first text of a later split")
        if not kept:
            raise TaskError(f"{where_of(data)}: the {split} split is empty: all its texts are in a later split too")
        left[split] = kept
    return replace(found, **left, remarks=(*_origins(parts), *found.remarks, *repeats))


def name_of(data: Data, mirror: str = "") -> str:
    """Name of the data set: of a file, without its suffix; of several files, joined."""
    if not isinstance(data, str):
        return "+".join(dict.fromkeys(Path(short_name(file)).stem for file in data.values()))
    name = short_name(data)
    return Path(name).stem if resolve(data, mirror).is_file() else name


def where_of(data: Data) -> str:
    """``data`` as error messages begin."""
    return data if isinstance(data, str) else " + ".join(data.values())


def _parts(data: Data, mirror: str, columns: Sequence[str], label: str = "") -> list[Part]:
    """The parts of ``data``, not read yet; ``columns`` of texts and, if there is one, the label are all they need.

    Raises TaskError if none of them belongs to a split.
    """
    if not isinstance(data, str):
        return [_of_file(split, file_of(file, split, mirror), columns, label) for split, file in data.items()]
    path = local(data, mirror)
    if path is None:
        parts = [Part(_split_of(split[0]), *split) for split in streamed(data, label)]
    elif path.is_file():
        return [_of_file("all", path, columns, label)]
    elif is_saved(path):
        parts = [Part(_split_of(split[0]) if split[0] else "all", *split) for split in saved(path, data, label)]
    else:
        parts = [
            _of_file(_split_of(name), path / name, columns, label)._replace(name=name) for name in _data_files(path)
        ]
        if not any(part.split for part in parts):
            raise TaskError(f"{data}: no {'/'.join(SUFFIXES)} file here is named train, validation (dev) or test")
    if not any(part.split for part in parts):
        found = _listed([part.name for part in parts])
        raise TaskError(f"{data}: no split here is named train, validation (dev) or test; found: {found}")
    return parts


def _data_files(folder: Path) -> list[str]:
    """Names of the data files in ``folder``, sorted, without hidden ones, which notebooks and file managers leave."""
    files = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in SUFFIXES and file.is_file()]
    names = [file.relative_to(folder) for file in files]
    return [str(name) for name in names if not any(part.startswith(".") for part in name.parts)]


def _of_file(split: str | None, file: Path, columns: Sequence[str], label: str) -> Part:
    header = {".csv": f"{file}: header", ".parquet": str(file)}.get(file.suffix.lower(), "")
    return Part(split, file.name, class_names(file, label), read(file, (*columns, label) if label else columns), header)


def _split_of(name: str) -> str | None:
    """The split that a file's name or, if it says nothing, the name of a folder around it stands for."""
    for word in reversed(Path(name).with_suffix("").parts):
        for split, pattern in SPLIT_NAMES.items():
            if pattern.search(word):
                return split
    return None


def _origins(parts: Sequence[Part]) -> list[str]:
    """Remarks on the files, or splits of a data set, that were read, and on those that were not."""
    remarks = [f"read from {part.name}" for part in parts if part.split == "all" and part.name]
    for split in SPLITS:
        names = [part.name for part in parts if part.split == split]
        remarks += [f"{split} is {_listed(names)}"] if names not in ([], [split]) else []
    endings = {Path(part.name).suffix for part in parts if part.split}  # a README.txt beside tables is not data
    unread = [part.name for part in parts if part.split is None and Path(part.name).suffix in endings]
    return [*remarks, f"not read, as the name is of no split: {_listed(unread)}"] if unread else remarks


def _unlabelled(dropped: Counter[str], classes: Sequence[str]) -> list[str]:
    """Remarks on rows without a label, which leave ``classes`` if any."""
    remaining = ", ".join(classes) if len(classes) <= SHOWN else f"{len(classes)} classes"
    left = f" (remaining: {remaining})" if classes else ""
    meaning = {"none": "without a label", "-1": f"labelled -1, which means no label{left},"}
    return [
        f"{dropped[kind]} {'row' if dropped[kind] == 1 else 'rows'} {meaning[kind]} dropped"
        for kind in meaning
        if dropped[kind]
    ]


def _listed(names: Sequence[str]) -> str:
    """``names`` as text, with at most ``SHOWN`` of them."""
    shown = " + ".join(names[:SHOWN])
    return shown + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)


def _rows(
    part: Part, columns: Sequence[str], label: str, dropped: Counter[str], places: dict[str | int, str]
) -> list[Row]:
    """Texts and label of each labelled row; the others are counted in ``dropped``, under ``-1`` or ``none``.

    places: receives file and line where each label first stands. Raises TaskError for a missing column, an empty text,
    or a label that is neither text nor a whole number.
    """
    rows: list[Row] = []
    for where, row in part.rows:
        _check_columns(part, where, row, {"--text": columns, "--label": [label]})
        if (value := label_of(row[label], part.classes, where)) is not None:
            rows.append((tuple(_text(row[column], column, where) for column in columns), value))
            places.setdefault(value, where)
        else:
            dropped["-1" if str(row[label]).strip().startswith("-1") else "none"] += 1
    return rows


def _check_columns(part: Part, where: str, row: Mapping[str, Any], wanted: Mapping[str, Sequence[str]]) -> None:
    """Raise TaskError if ``row`` lacks a column; wanted: columns by the flag that names them."""
    for flag, columns in wanted.items():
        for column in columns:
            if column not in row:
                known = ", ".join(map(repr, row))
                raise TaskError(f"{part.header or where}: no column {column!r}; it has {known}: give {flag} COLUMN")


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{where}: column {column!r} has no text but {short(value)}")
    if len(value) > ROW:
        raise TaskError(f"{where}: column {column!r} has a text of {len(value):,} characters; at most {ROW:,} are read")
    if not is_unicode(value):
        raise TaskError(f"{where}: column {column!r} is not valid Unicode: {short(value)}")
    return value
