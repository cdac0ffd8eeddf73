"""Where the pages of a report are, by method and task; ``root`` leads from a page to the folder of the report."""

from __future__ import annotations

import re
from hashlib import sha256

from bench.records.schema import TaskKey

LONGEST = 60  # characters of a file name


def slug(name: str) -> str:
    """A file name for ``name`` that no other name has.

    A digest is added where characters had to be replaced or lower-cased (some file systems ignore case).

    >>> slug("michel"), slug("a/b")
    ('michel', 'a_b-c14cdd')
    """
    plain = re.sub(r"[^a-z0-9._=+-]", "_", name.lower()).strip(".")[:LONGEST]
    return plain if plain and plain == name else f"{plain or 'x'}-{sha256(name.encode()).hexdigest()[:6]}"


def task_slug(task: TaskKey) -> str:
    """File name of a task, without an ending."""
    return slug(".".join(task))


def method_link(label: str, root: str = "") -> str:
    """Link to a method's page."""
    return f"{root}methods/{slug(label)}.html"


def task_link(task: TaskKey, root: str = "") -> str:
    """Link to a task's page."""
    return f"{root}tasks/{task_slug(task)}.html"


def heads_file(task: TaskKey) -> str:
    """A task's page of heads, by its path in the report."""
    return f"heads/{task_slug(task)}.html"


def records_link(label: str, task: TaskKey | None = None, root: str = "") -> str:
    """Link to the records of a method, on one task or on all."""
    return f"{root}records.html#{slug(label)}" + (f"--{task_slug(task)}" if task else "")
