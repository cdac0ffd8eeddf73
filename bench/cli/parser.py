"""A parser that reports a mistake in one line.

argparse does: it loads at once, and flags are made from the fields of a task request, which click or typer would not
make shorter.
"""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, with the nearest flag or choice."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        flags = [flag for action in self._actions for flag in action.option_strings]
        if unknown := re.search(r"unrecognized arguments: (\S+)", message):
            near = get_close_matches(unknown[1].split("=")[0], flags, n=1)
            message = f"unknown argument {unknown[1]!r}" + (f": did you mean {near[0]}?" if near else "")
            if unknown[1].startswith("--recover"):
                message += ": it is an option of each method, METHOD:recover=lstsq"
        elif choice := re.search(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)", message):
            choices = re.findall(r"[\w-]+", choice[3])
            near = get_close_matches(choice[2], choices, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(choices)}"
            message = f"{choice[1]}: unknown {choice[2]!r}: {hint}"
        elif message.endswith("required: WHAT"):
            available = next(action.choices for action in self._actions if action.choices)
            message = f"WHAT is missing; available: {', '.join(available)}"
        message = " ".join(message.removeprefix("argument ").split())
        print(f"headbench: error: {message}", file=sys.stderr)
        sys.exit(2)
