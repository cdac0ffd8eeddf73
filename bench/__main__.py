"""``python -m bench`` and ``headbench``: read the command line, run the verb, turn bad input into one line."""

from __future__ import annotations

import sys

from bench.cli import parse


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; its exit code: 0 fine, 1 some cell failed, 2 bad input, 130 interrupted."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # Imported late, so that --help and a mistyped flag answer at once.
    from bench.errors import InputError
    from methods.heads import UnsupportedArchitecture
    from tasks.errors import TaskError

    try:
        return options.verb(options)
    except (InputError, TaskError, UnsupportedArchitecture) as error:
        print(f"headbench: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(
            f"headbench: error: {where}{error.strerror or error}; what was finished is kept, run again to go on",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("\nheadbench: stopped; what was finished is kept, run again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
