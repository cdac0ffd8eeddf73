"""The records of a run in one file, ``records.tar.xz``, a sixth of their size: for results that are kept or passed on.

Where a run has the file and no folder ``records``, its records are read from the file.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from bench.records.errors import InputError
from bench.records.files import NotAFile, read_file, write_whole

SUFFIX = ".tar.xz"  # after the name of the folder
NAME = re.compile(r"(?!\.\.?/)[^/]+/(?!\.\.?/)[^/]+/[^/]+\.(json|safetensors)")  # below the folder
MOST = 2**30  # bytes that an archive may hold: some 150,000 records


def archive_of(records: Path) -> Path:
    """The file that holds what is in the folder ``records`` when it is packed, whether or not it exists."""
    return records.with_name(records.name + SUFFIX)


def is_packed(records: Path) -> bool:
    """Whether records are to be read from the archive: it is there, and the folder is not."""
    return not records.exists() and archive_of(records).exists()


def stored(path: Path) -> bytes:
    """Content of a file of a record, ``records/TASK/METHOD/NAME``, which may be packed.

    Raises what ``read_file`` and ``contents`` do.
    """
    records = path.parents[2]
    if not is_packed(records):
        return read_file(path)
    try:
        return contents(archive_of(records))[path.relative_to(records).as_posix()]
    except KeyError:
        raise FileNotFoundError(f"{path}: not in {archive_of(records)}") from None


def contents(archive: Path) -> Mapping[str, bytes]:
    """The files in ``archive`` by their paths below the folder of records; read once while it stays as it is.

    Raises InputError where it is not an archive of records and nothing else, or one larger than ``MOST``.
    """
    state = archive.stat()
    return _contents(archive, (state.st_ino, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=4)
def _contents(archive: Path, _: tuple[int, ...]) -> Mapping[str, bytes]:
    try:
        with (
            lzma.open(io.BytesIO(read_file(archive))) as content,
            tarfile.open(fileobj=_Bounded(content), mode="r|") as files,
        ):
            return dict(_members(files))
    except (NotAFile, tarfile.TarError, lzma.LZMAError, EOFError, ValueError, UnicodeError) as error:
        raise InputError(f"{archive}: not an archive of records: {error or type(error).__name__}") from error


def _members(files: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in files:
        if not member.isreg() or not NAME.fullmatch(member.name):
            raise ValueError(f"it holds {member.name!r}, which is not a file of a record")
        file = files.extractfile(member)
        assert file is not None  # as it is a regular file
        yield member.name, file.read()


class _Bounded(io.RawIOBase):
    """A stream of which no more than ``MOST`` bytes are read."""

    def __init__(self, content: lzma.LZMAFile) -> None:
        self._content, self._left = content, MOST

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._left:
            raise ValueError(f"it holds more than {MOST // 2**20} MB")
        found = self._content.read(size)
        self._left -= len(found)
        return found


def write_archive(archive: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files``, by their paths below the folder of records; the same files give the same bytes.

    Raises OSError, and then leaves what was there.
    """
    packed = io.BytesIO()
    with lzma.open(packed, "w", preset=9) as content, tarfile.open(fileobj=content, mode="w|") as out:
        for name in sorted(files, key=lambda name: (not name.endswith(".json"), name)):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            out.addfile(member, io.BytesIO(files[name]))
    write_whole(archive, packed.getvalue())
