"""What travels between driver and nodes: the user's files and trained models. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.digest import digest_of, digest_of_files
from tasks.models.cache import DIGESTS, Cache

Files = Mapping[str, Any]  # by path in a folder: references to their content, (bytes,) uint8


@dataclass(frozen=True)
class Content:
    """A file or a folder of the user's that a task reads."""

    field: str  # of the request for the task that names it
    given: str  # what that field says, or one of its parts
    path: str  # on the driver, absolute
    name: str  # that results know it by
    files: tuple[str, ...]  # their paths in the folder; empty for a file
    digest: str

    @property
    def key(self) -> str:
        """Its folder in a cache: of its name too, which results know it by."""
        return f"data-{digest_of([self.name, self.digest])[:32]}"

    @property
    def place(self) -> tuple[Path, tuple[str, ...]]:
        """The folder that its files are in, and their paths there."""
        return self._at(Path(self.path))

    def located(self, cache: Cache) -> Path | None:
        """Where this machine has it, with the same content: at its own path, or in the cache; None where it has not."""
        places = (Path(self.path), cache.path(self.key) / self.name)
        return next((place for place in places if place.name == self.name and self._is_in(*self._at(place))), None)

    def _at(self, path: Path) -> tuple[Path, tuple[str, ...]]:
        """The folder that its files are in where ``path`` is the file or folder itself, and their paths there."""
        return (path, self.files) if self.files else (path.parent, (path.name,))

    def _is_in(self, folder: Path, names: Sequence[str]) -> bool:
        """Whether its files are in ``folder``, and no other that a task would read: of a model all are named."""
        whole = bool(self.files) and self.field != "model"
        return digest_of_content(folder, names) == self.digest and not (whole and files_in(folder) != self.files)


def files_in(folder: Path) -> tuple[str, ...]:
    """Paths in ``folder`` of the files in it that tasks read: neither hidden nor made by Python."""
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return tuple(
        path.as_posix()
        for path in paths
        if "__pycache__" not in path.parts and not any(part.startswith(".") for part in path.parts)
    )


def digest_of_content(folder: Path, names: Sequence[str]) -> str:
    """Digest of some files by their paths in ``folder``; empty where one is missing."""
    try:
        return digest_of([[name, digest_of_files([folder / name])] for name in names])
    except OSError:
        return ""


def trained(folder: Path) -> tuple[Path, list[str]]:
    """A folder of the cache with a model, and the paths of the files in it that travel."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != DIGESTS)
    return folder, [path.relative_to(folder).as_posix() for path in paths]


def read(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Files by their paths in ``folder``, as they travel."""
    return {name: np.fromfile(folder / name, np.uint8) for name in names}


def write(files: Mapping[str, np.ndarray], empty: Path) -> None:
    """Write what ``read`` has read to a folder."""
    for name, content in files.items():
        path = empty / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content.tofile(path)
