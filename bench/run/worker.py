"""The process that runs jobs: it takes one after another from a pipe, and ends with the process that started it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from bench.process.parent import end_with


@dataclass(frozen=True)
class Begun:
    """The process has started, and begins with the job that it was given."""


@dataclass(frozen=True)
class Doing:
    """What the job is doing now, in words."""

    text: str


@dataclass(frozen=True)
class Done:
    """The outcome of the job at ``index``: a value, or the reason why there is none."""

    index: int
    seconds: float
    value: Any = None
    died: str = ""  # how its process ended, or why it was ended
    crashed: bool = False  # whether the process ended by itself
    error: BaseException | None = None  # what it raised, which ends the run
    last: bool = False  # whether its process takes no other job


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Inside, Ctrl-C waits. Processes that are started inside begin with it blocked, and unblock it when they can."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(pipe: Connection, others: list[Connection], start: Callable[[], None], parent: int) -> None:
    """The loop of a worker process: take jobs until the pipe closes.

    others: the ends of the pipes to other workers, which a forked process inherits and must not hold open.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with(parent)
    for other in others:
        other.close()
    # Texts are tokenized before and after a fork; the library warns of that if it may use threads.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from bench.measure.isolation import process_is_changed
    from bench.measure.status import set_listener

    torch.set_num_threads(1)
    start()
    sending = threading.Lock()

    own = os.getpid()

    def send(message: object) -> None:
        if os.getpid() != own:  # a method forked, and its child came back; the parent goes on
            os._exit(0)
        with sending, contextlib.suppress(BrokenPipeError):  # the watch ends this process
            pipe.send(message)

    set_listener(lambda text: send(Doing(text)))
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            index, job = pipe.recv()
            send(Begun())
            done = _run(index, job)
            last = process_is_changed() or not _gpus_work()
            send(replace(done, last=last))
            if last:
                os._exit(1)  # another process takes its place


def _run(index: int, job: Callable[[], Any]) -> Done:
    begin = time.perf_counter()
    try:
        value = job()
    except Exception as error:
        return Done(index, time.perf_counter() - begin, error=_portable(error))
    except BaseException as error:  # as a method may raise; it must end neither this process nor the run
        return Done(index, time.perf_counter() - begin, died=f"it raised {type(error).__name__}")
    seconds = time.perf_counter() - begin
    try:
        pickle.loads(pickle.dumps(value))
    except BaseException as error:  # what a method reports may be nothing that can be sent, or read again
        from bench.measure.cell import reason_of  # loads torch

        return Done(index, seconds, died=f"its outcome cannot be sent to another process: {reason_of(error)}")
    return Done(index, seconds, value)


def _gpus_work() -> bool:
    """Whether the GPUs that this process uses still take work: after some faults none does until the process ends."""
    import torch

    if not torch.cuda.is_initialized():
        return True
    try:
        for number in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(number):  # to ask the others would take memory of them
                torch.cuda.synchronize(number)
    except Exception:
        return False
    return True


def _portable(error: Exception) -> Exception:
    """``error`` with its traceback as a note, which would not survive the way to another process; not all errors do."""
    note = traceback.format_exc()
    try:
        error = pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}, which cannot be sent to another process")
    error.add_note(note)
    return error
