"""``python -m bench`` and ``headbench``: read the command line, run the verb, report bad input in one line.

Modules that take time to import are imported when signals are handled already.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from bench.cli.streams import make_usable
from bench.process import signals

if TYPE_CHECKING:
    from argparse import Namespace


def command() -> NoReturn:
    """The whole life of the process: as ``main``, with usable streams and the signals handled that ask it to end."""
    make_usable()
    signals.install()  # at the end, as only main says in a line what a signal raises
    code = main()
    signals.ignore()
    sys.exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code.

    0 success, 1 a cell failed or was not timed, a check failed, or a method regressed, 2 bad input, 130 interrupted,
    141 nobody reads the output, 143 ended by SIGTERM.
    """
    options = None
    try:
        from bench.cli.arguments import parse
        from bench.records.errors import InputError, InputErrors
        from tasks.errors import TaskError

        options = parse(sys.argv[1:] if arguments is None else arguments)
        code = options.verb(options)
        signals.check()
        print(end="", flush=True)
        return code
    except KeyboardInterrupt:
        return _ended("stopped", options, 130)
    except signals.Terminated:
        return _ended("ended by SIGTERM", options, 143)
    except InputErrors as error:
        return _complain(*error.lines)
    except (InputError, TaskError) as error:
        return _complain(str(error))
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()  # it may be the output that cannot be written
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}{_kept(options)}")
    except ValueError as error:
        # Importing the class would import torch; if the error is one, its module is loaded already.
        layout = sys.modules.get("methods.heads.finding.layout")
        if layout is None or not isinstance(error, layout.UnsupportedArchitecture):
            raise
        return _complain(str(error))


def _ended(how: str, options: Namespace | None, code: int) -> int:
    print(f"\nheadbench: {how}{_kept(options)}", file=sys.stderr)
    return code


def _kept(options: Namespace | None) -> str:
    """What is said where a run ends early; empty where no cell was begun, which is when its folder is made."""
    if options is None or options.name != "run" or options.dry_run or options.out is None:
        return ""
    from bench.records.errors import CONTINUE

    try:
        return f"; {CONTINUE}" if (options.out / "records").is_dir() else ""
    except OSError:  # its name is too long, or there is no permission
        return ""


def _complain(message: str, *more: str) -> int:
    first, *others = (" ".join(line.split()) for line in (message, *more))
    print("\n  ".join([f"headbench: error: {first}", *others]), file=sys.stderr)
    return 2


def _drop_output() -> None:
    """If standard output cannot be written, keep the interpreter from trying again when it exits."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    command()
