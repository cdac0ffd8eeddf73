"""The cache of trained models: one folder each, built once, however many processes ask for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import platformdirs

from tasks.files import TEMPORARY, locked, system_errors


def default_root() -> Path:
    """``HEADBENCH_CACHE``, or the platform's cache folder."""
    return Path(os.environ.get("HEADBENCH_CACHE") or platformdirs.user_cache_dir("headbench", appauthor=False))


class Cache:
    """Folders under ``root`` that are built whole, under a lock, and then only read."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, key: str) -> Path:
        """Where the folder of ``key`` is, or would be."""
        return self.root / key

    def folder(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder of ``key``, built by ``build(empty folder)`` if it is not there yet.

        A second process that asks for the same key waits for the first. What a killed process left is cleared away.
        """
        path = self.path(key)
        temporary = path.with_name(path.name + TEMPORARY)
        while not path.is_dir():
            with suppress(FileExistsError):  # exist_ok would look twice, and another process may rename it in between
                temporary.mkdir(parents=True)
            with ExitStack() as stack:
                try:
                    same = stack.enter_context(locked(temporary))
                except FileNotFoundError:  # built by another process since the line before
                    continue
                if not same():  # built, or given up, by the process that we waited for
                    continue
                if path.is_dir():  # built between our look and our making the temporary folder
                    temporary.rmdir()
                    continue
                for left in temporary.iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                try:
                    with system_errors():
                        build(temporary)
                    temporary.rename(path)
                except BaseException:
                    shutil.rmtree(temporary, ignore_errors=True)
                    raise
        return path

    def size(self) -> int:
        """Bytes of everything in the cache, as far as it stays there while we look."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                with suppress(FileNotFoundError):
                    total += (Path(folder) / name).stat().st_size
        return total
