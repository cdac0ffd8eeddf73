"""``python -m bench`` and ``headbench``: read the command line, run the verb, turn bad input into one line."""

from __future__ import annotations

import os
import sys

from bench.cli.arguments import parse


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; its exit code: 0 fine, 1 some cell failed, 2 bad input, 130 interrupted, 141 no reader."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # Imported late, so that --help and a mistyped flag answer at once.
    from bench.records.errors import InputError
    from methods.heads import UnsupportedArchitecture
    from tasks.errors import TaskError

    kept = "; what was finished is kept, run again to go on" if options.name == "run" else ""
    try:
        code = options.verb(options)
        print(end="", flush=True)
        return code
    except (InputError, TaskError, UnsupportedArchitecture) as error:
        return _complain(str(error))
    except BrokenPipeError:  # the reader of our output has gone
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()  # it may be the output that cannot be written
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}{kept}")
    except KeyboardInterrupt:
        print(f"\nheadbench: stopped{kept}", file=sys.stderr)
        return 130


def _complain(message: str) -> int:
    print(f"headbench: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Where standard output cannot take what was written, let the end of the interpreter not try again."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
