"""What Ray's processes on the nodes do: give a job to a child process, with what it reads. Imports no torch.

Only our own dataclasses, bytes and arrays travel.
"""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench.run.cluster.code import Code, code, difference
from bench.run.cluster.contents import Content, Files, read, trained, write
from tasks.models.cache import Cache, damage, default_root, identity

TICK = 0.25  # seconds between two looks at whether the job is to be cancelled
TOLD_EVERY = 2.0  # seconds between two messages on what a job does
FINAL = 20.0  # seconds that the child has to end by itself


@dataclass(frozen=True)
class Ticket:
    """A job on its way to a node."""

    number: int  # of its flight
    job: bytes  # pickled
    run: str  # the name of the run
    code: Code  # that the driver runs
    threads: int
    cache: Path | None  # folder of trained models; None for that of the node
    device: str  # that the job runs on
    model: str  # folder in the cache with the model that the job needs; empty where the driver has none
    like: str  # the identity of that folder on the driver
    contents: tuple[Content, ...]  # that its task reads
    sent: Mapping[str, Files]  # folders of the cache that some node lacked


@dataclass(frozen=True)
class Answer:
    """What became of a job."""

    done: bytes = b""  # pickled
    crashed: bool = False  # whether its process did
    other_code: str = ""  # in what the node differs, in which case the job was not run
    unable: str = ""  # why no process for jobs starts on the node, in which case the job was not run
    lacks: str = ""  # the folder of the cache that the node does not have, in which case the job was not run


@dataclass
class Child:
    """The child of this process, and the pipe to it."""

    process: subprocess.Popen[bytes]
    pipe: Connection
    made_for: tuple[Any, ...]

    def end(self) -> None:
        """End it, and with it the job that it runs."""
        self.pipe.close()
        try:
            self.process.wait(FINAL)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_child: Child | None = None


def take(ticket: Ticket, board: Any) -> Answer:
    """Run the job of ``ticket`` on this node. board: where it tells what it is doing."""
    if other := difference(code(), ticket.code):
        return Answer(other_code=other)
    board.tell.remote(ticket.number, 0.0, "")  # it has begun
    cache = Cache(ticket.cache or default_root(ticket.device))
    if lacks := _not_sent(ticket, cache):
        return Answer(lacks=lacks)
    if (models := _cache_with_model(ticket, cache)) is None:
        return Answer(lacks=ticket.model)
    moved = {(content.field, content.given): str(_place(content, cache)) for content in ticket.contents}
    child = _child_for(ticket)
    try:
        with suppress(ConnectionError):  # it ended before it read all, and may have said why
            child.pipe.send((ticket.job, models.root, moved))
        answer = _wait(child, ticket.number, board)
    except KeyboardInterrupt:  # cancelled, perhaps in the middle of a message
        child.end()
        raise
    except (EOFError, OSError):  # it died, before or meanwhile
        child.end()  # until that is so, it seems to be alive, and the next try would be given to it
        return Answer(crashed=True)
    return answer


def pack(model: str, cache: Path | None, device: str) -> dict[str, np.ndarray]:
    """The files of a trained model on this node, (bytes,) uint8 each, by their paths in its folder.

    None of a model that is not as it was made, which whoever needs it makes again.
    """
    folder = Cache(cache or default_root(device)).path(model)
    return {} if damage(folder) else read(*trained(folder))


def _place(content: Content, cache: Cache) -> Path:
    """Where this machine has it. Raises FileNotFoundError where what was sent did not stay as it was."""
    if (place := content.located(cache)) is None:
        what = f"what was sent of {content.name} is not whole; remove the folder"
        raise FileNotFoundError(errno.ENOENT, what, str(cache.path(content.key)))
    return place


def _not_sent(ticket: Ticket, cache: Cache) -> str:
    """Put files of the user's own that the job reads in the cache of this node; the key of those that were not sent."""
    for content in ticket.contents:
        if content.located(cache) is None:
            if content.key not in ticket.sent:
                return content.key
            name = content.name if content.files else ""
            cache.folder(content.key, functools.partial(_write, ticket.sent[content.key], name))
    return ""


def _cache_with_model(ticket: Ticket, cache: Cache) -> Cache | None:
    """Where the job finds its model, which is put there if need be; None if it was not sent.

    That is ``cache``, or a folder in it where that has the model with other weights: they were made here, or are those
    of another driver, whose jobs may be using them, and are not those on which other nodes run the other cells.
    """
    if not ticket.model:
        return cache
    beside = Cache(cache.root / f"sent-{ticket.like[:16]}")
    for place in (cache, beside):
        if not identity(place.path(ticket.model)):
            if ticket.model not in ticket.sent:
                return None
            place.folder(ticket.model, functools.partial(_write, ticket.sent[ticket.model], ""))
        if identity(place.path(ticket.model)) == ticket.like:
            break
    return place


def _write(files: Files, name: str, empty: Path) -> None:
    """Write files that were sent to the folder of this name in ``empty``."""
    import ray

    for file, reference in files.items():  # one by one: a model may be large
        content: Any = ray.get(reference)
        write({file: content}, empty / name)


def _wait(child: Child, number: int, board: Any) -> Answer:
    """What became of the job at hand. Raises EOFError where the child crashed."""
    begin = told_at = time.monotonic()
    doing, told = "", None
    while True:
        if child.pipe.poll(TICK):
            match child.pipe.recv():
                case "done", content, crashed:
                    return Answer(content, crashed)
                case "unable", why:
                    return Answer(unable=why)
                case "doing", text:
                    doing = text
        now = time.monotonic()
        if doing != told and now - told_at > TOLD_EVERY / 4 and (told is None or now - told_at > TOLD_EVERY):
            told, told_at = doing, now
            board.tell.remote(number, now - begin, doing)


def _child_for(ticket: Ticket) -> Child:
    """The child that runs jobs like this one; another is ended, as one that was to use another GPU."""
    global _child
    made_for = (ticket.run, ticket.threads, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if _child is not None and (_child.made_for != made_for or _child.process.poll() is not None):
        _child.end()
        _child = None
    if _child is None:
        here, there = Pipe()
        place = there.fileno()
        command = [sys.executable, "-m", "bench.run.cluster.child", str(place), str(ticket.threads), ticket.run]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            command, env=environment, pass_fds=[place], stdin=subprocess.DEVNULL, start_new_session=True
        )
        there.close()
        _child = Child(process, here, made_for)
    return _child


class StatusBoard:
    """What the jobs at work say that they do, for the driver to read now and then. An actor."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[float, str]] = {}

    def tell(self, number: int, seconds: float, doing: str) -> None:
        """The job of the flight with this number has been running for some seconds."""
        self._told[number] = (seconds, doing)

    def read(self) -> dict[int, tuple[float, str]]:
        """What was told since this was called last."""
        told, self._told = self._told, {}
        return told
