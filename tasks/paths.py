"""Paths as somebody wrote them."""

from pathlib import Path


def expanded(name: str) -> Path:
    """``name`` as a path in which ``~`` is the user's folder; one that begins with an unknown user stays as it is."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def at_home(name: str) -> str:
    """``name``, with ``~`` as the user's folder where no shell replaced it, as in ``--flag=~/place``."""
    return str(expanded(name)) if name.startswith("~") else name
