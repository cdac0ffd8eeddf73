"""The child of one of Ray's processes: it runs ``template.py``, or says why it cannot, as where torch does not load.

Arguments: the file descriptor of the pipe, the number of threads of a job, the name of the run.
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection


def main(place: str, threads: str, run: str) -> None:
    """Serve until the pipe closes. Sends ``("unable", why)`` before it raises what keeps it from starting."""
    pipe = Connection(int(place))
    try:
        from bench.run.cluster import template

        template.start()
    except Exception as error:
        pipe.send(("unable", _in_a_line(error)))
        raise
    try:
        template.serve(pipe, int(threads), run)
    except (EOFError, ConnectionError):  # Ray's process has ended
        sys.exit(0)
    except OSError as error:  # of this machine, such as a full disk: no job is to blame
        pipe.send(("unable", _in_a_line(error)))
        raise


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


if __name__ == "__main__":
    main(*sys.argv[1:])
