"""The cache of trained models: one folder each, built once even if several processes need it, checked when opened."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock

TEMPORARY, LOCK, DAMAGED = ".tmp", ".lock", ".damaged"  # suffixes
DIGESTS = "digests.json"  # in each folder: the digest of each of its other files
REPORT = "training.json"  # beside the weights of a model: how it was trained, and how long that took


def default_root(device: str = "cpu") -> Path:
    """``HEADBENCH_CACHE``, or the platform's cache folder; in it, a folder for what other devices than the CPU train.

    The same seed gives other weights there, and what a run on one device finds must not depend on runs on another.
    """
    root = Path(os.environ.get("HEADBENCH_CACHE") or platformdirs.user_cache_dir("headbench", appauthor=False))
    return root if device == "cpu" else root / device


class NoCache(OSError):
    """The folder of the cache cannot be made, whatever it is needed for."""


class Cache:
    """Folders under ``root``, each built under a lock, moved in place when complete, and only read from then on."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, key: str) -> Path:
        """Path of the folder of ``key``, which may not exist yet."""
        return self.root / key

    def folder(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder of ``key``, built by ``build(empty folder)`` if it does not exist yet.

        A second process that needs the same key waits for the first. Leftovers of a killed process are removed. Each
        time, all files are read (1 to 3 seconds per GB) and compared with their digests: a folder that is not as it
        was built, or has no digests, is set aside, named on standard error, and built again. Raises NoCache where the
        cache cannot be made.
        """
        path = self.path(key)
        temporary = path.with_name(path.name + TEMPORARY)
        if os.path.lexists(path) and not damage(path):
            return path
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NoCache(error.errno, error.strerror, str(self.root)) from error
        with FileLock(path.with_name(path.name + LOCK)):  # released by the kernel if its holder dies
            if os.path.lexists(path):
                if not (fault := damage(path)):  # built by the process that we waited for
                    return path
                print(f"headbench: {path}: {fault}: set aside as {_set_aside(path).name}", file=sys.stderr)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            try:
                with system_errors(path):
                    build(temporary)
                    (temporary / DIGESTS).write_text(json.dumps(_digests(temporary), indent=1), encoding="utf-8")
                temporary.rename(path)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
        return path

    def size(self) -> int:
        """Total size of the files in the cache, in bytes. Files that vanish meanwhile do not count."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                with suppress(FileNotFoundError):
                    total += (Path(folder) / name).stat().st_size
        return total


def identity(folder: Path) -> str:
    """What a folder of the cache was built as; empty where that is unknown.

    The same for folders of the same files, but for how long a training took.
    """
    try:
        built = dict(json.loads((folder / DIGESTS).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, RecursionError):
        return ""
    built.pop(REPORT, None)
    return hashlib.sha256(json.dumps(built, sort_keys=True).encode()).hexdigest()


def damage(folder: Path) -> str:
    """What is wrong with a folder of the cache, in a few words; empty where it is as it was built. Raises OSError."""
    if not folder.is_dir():
        return "not a folder"
    if not (folder / DIGESTS).is_file():
        return f"no {DIGESTS}"
    try:
        built = dict(json.loads((folder / DIGESTS).read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError):
        return f"{DIGESTS} cannot be read"
    found = _digests(folder)
    for name in sorted(built.keys() | found.keys()):
        if built.get(name) != found.get(name):
            return f"{name} is {'missing' if name not in found else 'new' if name not in built else 'altered'}"
    return ""


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 (hex) of each file in ``folder`` by its path there, without hidden ones, which nothing reads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != DIGESTS and not path.name.startswith("."):
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _set_aside(path: Path) -> Path:
    """Rename ``path`` to a name that is free."""
    number = 1
    while os.path.lexists(target := path.with_name(f"{path.name}{DAMAGED}{number}")):
        number += 1
    return path.rename(target)


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Turn an error of a library about a full disk or a missing permission into an OSError about ``path``.

    Those of safetensors and tokenizers, which are written in Rust, say so in their message only. An OSError without a
    number, as libraries raise for a lost connection, is none of the system's and stays as it is.
    """
    try:
        yield
    except Exception as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) and error.errno and not error.filename:
            number = error.errno
        elif found:
            number = int(found[1])
        else:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
