"""The records of a run in one file, ``records.tar.xz``, for results that are kept or passed on.

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
from bench.records.storage.files import NotAFile, read_file, write_whole

SUFFIX = ".tar.xz"  # after the name of the folder
NAME = re.compile(r"(?!\.\.?/)[^/]+/(?!\.\.?/)[^/]+/[^/]+\.(json|safetensors)")  # below the folder
MOST = 2**30  # bytes that an archive may hold: some 100,000 records
WORKING = 2**28  # bytes that unpacking may take beside them


def archive_of(records: Path) -> Path:
    """The file that holds what is in the folder ``records`` when it is packed, whether or not it exists."""
    return records.with_name(records.name + SUFFIX)


def is_packed(records: Path) -> bool:
    """Whether records are to be read from the archive: it is there, and the folder is not."""
    return not records.exists() and archive_of(records).exists()


def read_stored(path: Path) -> bytes:
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


@lru_cache(maxsize=2)  # of the two runs that are compared
def _contents(archive: Path, _: tuple[int, ...]) -> Mapping[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(_unpacked(archive)), mode="r:") as files:
            found = dict(_members(files))
        if not found:
            raise ValueError("it holds nothing")
    except (NotAFile, tarfile.TarError, lzma.LZMAError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{archive}: not an archive of records: {error or type(error).__name__}") from error
    return found


def _unpacked(archive: Path) -> bytes:
    if archive.stat().st_size > MOST:
        raise ValueError(f"it is larger than {MOST // 2**20} MB")
    xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WORKING)
    content = xz.decompress(read_file(archive), MOST + 1)
    if len(content) > MOST:
        raise ValueError(f"it holds more than {MOST // 2**20} MB")
    if not xz.eof or xz.unused_data:
        raise ValueError("it is cut short, or goes on after its end")
    return content


def _members(files: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in files:
        # A sparse file may claim to be larger than the archive.
        if not member.isreg() or member.issparse() or not _is_name(member.name):
            raise ValueError(f"it holds {member.name!r}, which is not a file of a record")
        file = files.extractfile(member)
        assert file is not None  # as it is a regular file
        yield member.name, file.read()


def _is_name(name: str) -> bool:
    """Whether a file of an archive may be called so."""
    return bool(NAME.fullmatch(name)) and name.isprintable()


def write_archive(archive: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files``, by their paths below the folder of records; the same files give the same bytes.

    Raises InputError where they are larger than what is read again, or one has a name that is not read again, OSError
    as ``write_whole`` does.
    """
    if odd := next((name for name in sorted(files) if not _is_name(name)), None):
        raise InputError(
            f"{archive}: cannot hold {odd!r}: rename its folder, with characters that can be printed alone"
        )
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as out:
        for name in sorted(files, key=lambda name: (not name.endswith(".json"), name)):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            out.addfile(member, io.BytesIO(files[name]))
    if content.tell() > MOST:
        raise InputError(f"{archive}: would hold more than {MOST // 2**20} MB, the most that is read from one file")
    write_whole(archive, lzma.compress(content.getvalue(), preset=9))
