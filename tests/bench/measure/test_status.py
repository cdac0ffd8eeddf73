"""Long work says what it is at; short work, and what ended, says nothing."""

from __future__ import annotations

import io
import threading
import time
from contextlib import redirect_stderr

import pytest

from bench.measure import status
from bench.measure.status import Status, duration


def wait_for(said, lines: int) -> list[str]:
    end = time.monotonic() + 30
    while said().count("\n") < lines and time.monotonic() < end:
        time.sleep(0.005)
    return said().splitlines()


@pytest.fixture
def no_time(monkeypatch):
    """However slow the machine is, no second is told to have passed."""
    monkeypatch.setattr(status, "duration", lambda seconds: duration(0.0) if seconds >= 0 else "less than nothing")


def test_it_says_again_and_again_what_is_done_now(no_time):
    to, count = io.StringIO(), iter(range(10**6))
    with Status("ae on a model", every=0.01, to=to) as status_line:
        wait_for(to.getvalue, 1)
        status_line.now(lambda: f"choosing, {next(count)} examples")
        said = wait_for(to.getvalue, 4)
        status_line.now("evaluating")
        said = wait_for(to.getvalue, len(said) + 2)
    assert said[0] == "  ae on a model: 0 s so far"
    assert "  ae on a model: choosing, 1 examples, 0 s so far" in said
    assert said[-1] == "  ae on a model: evaluating, 0 s so far"


def test_it_ends_with_the_work_also_where_that_fails():
    before = threading.active_count()
    to = io.StringIO()
    with pytest.raises(ZeroDivisionError), Status("work", every=0.001, to=to):
        wait_for(to.getvalue, 1)
        raise ZeroDivisionError
    said = to.getvalue()
    time.sleep(0.02)
    assert to.getvalue() == said and threading.active_count() == before


def test_what_is_short_says_nothing(capfd):
    with Status("work"):
        pass
    assert capfd.readouterr() == ("", "")


def test_libraries_that_are_kept_quiet_do_not_quieten_it(capfd, no_time):
    kept, heard = io.StringIO(), io.StringIO()

    def said() -> str:
        heard.write(capfd.readouterr().err)
        return heard.getvalue()

    with redirect_stderr(kept), Status("work", every=0.01):
        wait_for(said, 1)
    assert "work: 0 s so far" in said() and not kept.getvalue()


def test_a_listener_is_told_instead(capfd, monkeypatch):
    monkeypatch.setattr(status, "TOLD_EVERY", 0.005)
    told = []
    status.set_listener(told.append)
    try:
        with Status("work", every=0.001) as status_line:
            status_line.now("this")
            end = time.monotonic() + 30
            while not told and time.monotonic() < end:
                time.sleep(0.005)
    finally:
        status.set_listener(None)
    assert told == ["this"]  # once, as it did not change
    assert capfd.readouterr() == ("", "")
