"""The files of a leaderboard beside its records: nothing but what a leaderboard wrote there is replaced or removed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from bench.records.errors import InputError
from bench.records.storage.files import NotAFile, read_file, write_whole

TEXT, TABLE, PICTURE = "leaderboard.md", "leaderboard.csv", "curves.svg"
ABOUT = "Quality against the shares of heads and of parameters removed"  # the title of the picture
# What each file is known by, those of earlier runs and of results under version control too: how it begins.
BEGINNINGS = {
    TEXT: rf"# Leaderboard\n(\Z|\n!\[{ABOUT}\]|\n## Notes\n)",
    TABLE: r"\Z|task,data,model,label,seed,",
    PICTURE: rf"(?s)<\?xml .{{,1000}}<title>{ABOUT}</title>",
}


def check_free(folder: Path) -> None:
    """Raise InputError where a file in ``folder`` that no leaderboard wrote has the name of one of its files."""
    for name, beginning in BEGINNINGS.items():
        path = folder / name
        if os.path.lexists(path) and not _begins(path, beginning):
            raise InputError(
                f"{path}: not written by a leaderboard, which is written there: move it away, or give another folder"
            )


def put(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Write ``files`` to ``folder`` in place of those of an earlier leaderboard; returns their paths.

    Raises InputError as ``check_free`` does, with nothing written.
    """
    check_free(folder)
    for name in BEGINNINGS:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def _begins(path: Path, beginning: str) -> bool:
    try:
        return re.match(beginning, read_file(path).decode("utf-8", "replace")) is not None
    except (NotAFile, FileNotFoundError):  # or a link that leads nowhere
        return False
