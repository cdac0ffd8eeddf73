"""The cache of trained models: one folder each, built once even if several processes need it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock
from safetensors import SafetensorError

TEMPORARY, LOCK = ".tmp", ".lock"  # suffixes


def default_root() -> Path:
    """``HEADBENCH_CACHE``, or the platform's cache folder."""
    return Path(os.environ.get("HEADBENCH_CACHE") or platformdirs.user_cache_dir("headbench", appauthor=False))


class Cache:
    """Folders under ``root``, each built under a lock, moved in place when complete, and only read from then on."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, key: str) -> Path:
        """Path of the folder of ``key``, which may not exist yet."""
        return self.root / key

    def folder(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder of ``key``, built by ``build(empty folder)`` if it does not exist yet.

        A second process that needs the same key waits for the first. Leftovers of a killed process are removed.
        """
        path = self.path(key)
        temporary = path.with_name(path.name + TEMPORARY)
        if path.is_dir():
            return path
        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(path.name + LOCK)):  # released by the kernel if its holder dies
            if path.is_dir():  # built by the process that we waited for
                return path
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            try:
                with system_errors():
                    build(temporary)
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


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn a SafetensorError about a full disk or a missing permission into an OSError."""
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if not found:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
