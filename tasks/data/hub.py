"""Splits of a data set of the library ``datasets``: streamed from the hub, or written by its ``save_to_disk``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.data.readers import Located
from tasks.errors import TaskError, first_line

Split = tuple[str, list[str], Iterable[Located]]  # name ("" if there is only one), names of its integer labels, rows


def streamed(data: str, columns: Sequence[str], label: str) -> Iterator[Split]:
    """Splits of ``data`` on the hub, ``ID`` or ``ID:CONFIGURATION``, with only ``columns`` and ``label`` if it can be.

    Raises TaskError.
    """
    import datasets  # takes seconds to import, and files do not need it

    name, _, configuration = data.partition(":")
    try:
        found = datasets.load_dataset(name, configuration or None, streaming=True, trust_remote_code=False)
    except Exception as error:
        raise TaskError(
            f"{data}: no such file or folder, and it cannot be loaded from the hub ({first_line(error)}); "
            "give a local path, or --mirror DIR with a copy"
        ) from error
    for key in sorted(found):
        where = f"{data} ({key})"
        yield (
            key,
            _names(found[key], label),
            _located(_needed(found[key], columns, label), where, f"{where}: cannot be loaded completely from the hub"),
        )


def is_saved(path: Path) -> bool:
    """Whether ``path`` is a folder written by ``save_to_disk``, with several splits or one."""
    return any(
        all((path / name).is_file() for name in names)
        for names in (["dataset_dict.json"], ["state.json", "dataset_info.json"])
    )


def saved(path: Path, data: str, columns: Sequence[str], label: str) -> Iterator[Split]:
    """Splits in the folder ``path``, written by ``save_to_disk``, with only ``columns`` and ``label`` if it can be.

    Raises TaskError.
    """
    import datasets

    refused = "not a complete folder of save_to_disk of datasets; save it again, or with to_parquet"
    try:
        found = datasets.load_from_disk(path)
    except Exception as error:
        raise TaskError(f"{data}: {refused}: {first_line(error)}") from error
    splits = {"": found} if isinstance(found, datasets.Dataset) else found
    for key in sorted(splits):
        where = f"{data} ({key})" if key else data
        rows = splits[key].with_format(None)  # plain values, whatever format was set
        yield key, _names(rows, label), _located(_needed(rows, columns, label), where, f"{where}: {refused}")


def _needed(rows: Any, columns: Sequence[str], label: str) -> Any:
    """``rows`` with the columns that are used, if it has them all: others, such as images, would have to be decoded."""
    wanted = list(dict.fromkeys((*columns, label) if label else columns))
    return rows.select_columns(wanted) if set(wanted) <= set(rows.column_names or ()) else rows


def _names(rows: Any, label: str) -> list[str]:
    """Names of the integer labels in the column ``label``, if it declares them."""
    import datasets

    feature = (rows.features or {}).get(label)
    return list(feature.names) if isinstance(feature, datasets.ClassLabel) else []


def _located(rows: Iterable[dict[str, Any]], where: str, refused: str) -> Iterator[Located]:
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            yield f"{where}: row {number}", row
    except Exception as error:  # of any kind: a lost connection, or a package that decodes a column
        raise TaskError(f"{refused}: {first_line(error)}") from error
    if not number:
        raise TaskError(f"{where}: no row in it")
