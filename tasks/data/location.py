"""Where data sets and models are: a path, a copy in a mirror, an installed package, or the hub."""

from __future__ import annotations

from pathlib import Path

from tasks.data.packages import PREFIX, folder_in_package
from tasks.data.readers import SUFFIXES
from tasks.errors import TaskError
from tasks.paths import expanded


def resolve(name: str, mirror: str = "") -> Path:
    """The local path of ``name``: itself, or its copy in the mirror (``ORG/NAME``, ``ORG--NAME`` or ``NAME``).

    A configuration, ``NAME:CONFIGURATION``, is a folder in that copy; ``pypi:PACKAGE`` is the model folder in an
    installed package. What can only be a path is looked for nowhere else. A path that does not exist otherwise means
    that ``name`` has to come from the hub. Raises TaskError for a mirror that is not a folder, and for a package
    without a model.
    """
    if name.startswith(PREFIX):
        return folder_in_package(name)
    given = expanded(name)
    if given.exists() or not mirror or is_path(name):
        return given
    if not Path(mirror).is_dir():
        raise TaskError(f"mirror {mirror} (--mirror or HEADBENCH_MIRROR): no such folder")
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


def file_of(name: str, split: str) -> Path:
    """The path of the file ``name`` of one split. Raises TaskError."""
    path = expanded(name)
    if not path.is_file():
        raise TaskError(f"--{split} {name}: {'expected a file, not a folder' if path.is_dir() else 'no such file'}")
    return path


def is_path(name: str) -> bool:
    """Whether ``name`` can only be a path: no hub id looks like that."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def short_name(path_or_id: str) -> str:
    """A path, an id or a package without what leads to it: the same wherever a copy of it is."""
    path = expanded(path_or_id.removeprefix(PREFIX))
    return path.name if path.name not in ("", "..") else path.resolve().name
