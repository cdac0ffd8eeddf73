"""What a run shows while it is at work, and what Ctrl-C does then."""

from __future__ import annotations

import gc
import io
import os
import pty
import re
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest

from bench.process import signals
from bench.run.progress import SKIPPED, Progress
from tests.fixtures.forked import run_and_exit

SLOW = """
import time
from methods import scorer

@scorer("slow", source="test")
def slow(view):
    time.sleep(600)
"""


@dataclass
class Named:
    name: str


@dataclass
class At:
    """A worker, as far as progress is concerned."""

    index: int
    job: Named
    seconds: float = 0.0
    doing: str = ""
    stopped: str = ""

    def stop(self, reason: str) -> None:
        self.stopped = reason


class Terminal(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((80, 24)))


def test_in_a_file_each_job_is_named_after_a_second_and_every_minute():
    file = io.StringIO()
    progress = Progress(io.StringIO(), file)
    worker = At(0, Named("ae on m"))
    for seconds in (0.2, 0.9, 1.1, 1.4, 30, 61, 62, 119, 121):
        worker.seconds = seconds
        worker.doing = "choosing" if seconds > 30 else ""
        progress.watch([worker])
    progress.watch([At(1, Named("tis on m"), 0.1)])
    assert file.getvalue().splitlines() == [
        "  ae on m: 1 s so far",
        "  ae on m: choosing, 61 s so far",
        "  ae on m: choosing, 2 min so far",
    ]


def test_on_a_terminal_the_last_line_names_what_is_at_hand_at_once(capsys):
    terminal = Terminal()
    progress = Progress(Terminal(), terminal)
    progress.watch([At(0, Named("ae on m")), At(1, Named("tis on m"), 3.0, "choosing")], "about 3 min left")
    assert terminal.getvalue() == "\r\x1b[K  ae on m: 0 s; tis on m: choosing, 3 s; about 3 min left"
    progress.say("a line")
    assert terminal.getvalue().endswith("\r\x1b[K") and capsys.readouterr().out == "a line\n"
    progress.watch([At(0, Named("x" * 200))])
    assert len(terminal.getvalue().rpartition("\x1b[K")[2]) == 79


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C interrupts here and in what a test starts, though a shell that put us in the background had it ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize(
    ("answer", "jobs", "skipped"),
    [
        ("y", 1, {0}),
        ("n", 1, set()),
        ("", 1, set()),
        ("2", 2, {1}),
        ("1, 2", 2, {0, 1}),
        ("all", 2, {0, 1}),
        ("y", 2, set()),
    ],
)
def test_ctrl_c_once_asks_which_cells_to_skip(answer, jobs, skipped):
    terminal = Terminal()
    workers = [At(number, Named(f"job {number}")) for number in range(jobs)]
    with Progress(Terminal(f"{answer}\n"), terminal) as progress:
        os.kill(os.getpid(), signal.SIGINT)
        progress.watch(workers)
    assert {worker.index for worker in workers if worker.stopped == SKIPPED} == skipped
    assert "job 0" in terminal.getvalue()


def test_ctrl_c_twice_ends_the_run_and_once_where_nobody_can_answer():
    with pytest.raises(KeyboardInterrupt), Progress(Terminal(), Terminal()):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    for questions, status in ((io.StringIO(), Terminal()), (Terminal(), io.StringIO())):
        with pytest.raises(KeyboardInterrupt), Progress(questions, status):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


def test_ctrl_c_after_the_last_look_at_the_workers_is_not_lost():
    with pytest.raises(KeyboardInterrupt), Progress(Terminal(), Terminal()):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def handled(monkeypatch):
    """The signals as the command handles them."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(signals, "_terminated", False)
    signals.install()
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, signals.Terminated)]
)
def test_a_signal_ends_the_run_though_it_comes_where_nothing_can_be_raised(handled, number, raised):
    class Freed:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            time.sleep(1)

    with pytest.raises(raised), Progress(io.StringIO(), io.StringIO()) as progress:
        progress.watch([])
        Freed()
        gc.collect()
        progress.watch([])


def test_a_signal_ends_the_run_though_a_library_catches_what_it_raises(handled):
    with pytest.raises(signals.Terminated), Progress(io.StringIO(), io.StringIO()) as progress:
        with suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        progress.watch([])


def test_a_cell_is_skipped_on_a_terminal_and_the_run_goes_on(place, plugin):
    """The whole command, with Ctrl-C as a terminal sends it: a byte that the kernel turns into a signal."""
    plugin(SLOW)
    child, terminal = pty.fork()
    if child == 0:
        run_and_exit(place, "--methods", "slow,none")
    shown, sent = "", 0
    try:
        while select.select([terminal], [], [], 60)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
            if sent == 0 and re.search(r"slow on tiny-bert, tiny, seed 0: [^;]*\d s", shown):
                sent += os.write(terminal, b"\x03")
            if sent == 1 and "[y/N]" in shown:
                sent += os.write(terminal, b"y\n")
        os.kill(child, signal.SIGKILL)
    except OSError:  # the other side is closed
        pass
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1, shown
    reasons = {name: record.get("reason") for name, record in place.records().items()}
    assert reasons == {"slow/seed0": SKIPPED, "none/seed0": None}


@pytest.mark.slow
def test_a_model_to_train_does_not_put_its_seed_first(place, capsys):
    assert place.run("--methods", "none", "--seeds", "1", "--finetune") == 0
    capsys.readouterr()
    assert place.run("--methods", "none,random", "--seeds", "2", "--finetune") == 0
    assert "After seed 0 of all tasks:" in capsys.readouterr().out


def test_the_leaderboard_of_the_first_seed_comes_before_the_second(place, capsys):
    assert place.run("--methods", "none,random", "--seeds", "2", "--finetune") == 0
    output = capsys.readouterr().out
    interim, end = (found.start() for found in re.finditer("## Overall", output))
    seeds = re.findall(r"^\[\d/6\] (?:none|random) on .*seed (\d)", output[:interim], re.M)
    assert seeds == ["0", "0"] and "After seed 0 of all tasks:" in output[:interim]
    assert len(re.findall(r"^\[\d/6\]", output[interim:end], re.M)) == 2
    capsys.readouterr()
    assert place.run("--methods", "none", "--seeds", "1", out=place.folder / "one") == 0
    assert capsys.readouterr().out.count("## Overall") == 1


def test_of_many_jobs_the_longest_is_named():
    jobs = [At(number, Named(f"job {number}"), seconds=float(number)) for number in range(200)]
    terminal = Terminal()
    Progress(status=terminal).watch(jobs, "1 h left")
    assert terminal.getvalue().endswith("  200 at work, the longest: job 199: 3 min; 1 h left")
    file = io.StringIO()
    progress = Progress(status=file)
    progress.watch(jobs)
    progress.watch(jobs)
    assert file.getvalue() == "  200 at work, the longest: job 199: 3 min so far\n"
