"""Names of files that no record, checkpoint, digest or figure can hold: not UTF-8, or with control characters."""

from __future__ import annotations

import argparse
from pathlib import Path
from unicodedata import category

from tasks.data.labels import is_unicode
from tasks.request import flag_of

WRITTEN = ("run", "list", "prune")  # verbs that write what they are given, or show what would be written
SHOWN = ("data", "model", "train", "validation", "test", "out")  # flags that name files: names that tables hold


def check_names(options: argparse.Namespace) -> None:
    """Exit with 2 where a verb of ``WRITTEN`` is given a name that is not UTF-8, or that no page or figure can hold.

    Others only read or write files of that name.
    """
    if options.name not in WRITTEN:
        return
    for name, value in vars(options).items():
        if not isinstance(value, (str, Path)):
            continue
        # Tokenizers are saved by the whole path, in UTF-8; of records, only what is given is noted.
        whole = value.resolve() if name == "out" and options.name == "prune" and isinstance(value, Path) else value
        flag = flag_of(name)
        if not is_unicode(str(whole)):
            options.parser.error(f"{flag}: expected a name in UTF-8, not {str(whole)!r}: rename it")
        if name in SHOWN and any(category(letter) == "Cc" for letter in str(value)):
            options.parser.error(f"{flag}: expected a name without control characters, not {str(value)!r}: rename it")
