"""The verb ``regress``: did a change break a method? Records against those of a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from bench.analysis.regression.cells import twins
from bench.analysis.regression.junit import junit
from bench.analysis.regression.screen import screen
from bench.analysis.regression.verdict import FAILED, Limits, verdicts
from bench.records.errors import InputError, unknown
from bench.records.storage.files import write_whole


def regress(
    baseline: Path,
    folder: Path,
    methods: Sequence[str] = (),
    changed: Sequence[str] = (),
    limits: Limits | None = None,
    report: Path | None = None,
) -> int:
    """Compare the records in ``folder`` with those in ``baseline`` and print a screen; 1 where a method regressed.

    methods: labels to compare, all if none. changed: labels of those that are new or meant to differ. report: a JUnit
    file to write, in place of an earlier one. Raises InputError, also where the baseline lacks a method that is not
    named as changed, and where another file is in the place of the report.
    """
    if report is not None:
        _check_free(report)
    cells = twins(baseline, folder, methods)
    for label in changed:
        if label not in (*cells.labels(), *cells.new):
            if methods and label not in methods:
                raise InputError(f"--changed {label}: it is not among --methods, so it is not compared")
            raise unknown("method", label, [*cells.labels(), *cells.new])
    if strange := sorted(set(cells.new) - set(changed)):
        raise InputError(
            f"the baseline {baseline} lacks {', '.join(strange)}: where that is new, add --changed {','.join(strange)}"
        )
    found = verdicts(cells, changed, limits or Limits())
    print(screen(cells, found, baseline, folder))
    if report is not None:
        write_whole(report, junit(cells, found))
    return int(any(verdict.status == FAILED for verdict in found))


def _check_free(report: Path) -> None:
    """Raise InputError where ``report`` is something else than an earlier report, or an empty file."""
    if report.exists() and not (report.is_file() and (report.stat().st_size == 0 or _is_junit(report))):
        raise InputError(f"--junit {report}: exists already, and is not a JUnit file: give another file")


def _is_junit(file: Path) -> bool:
    """Whether ``file`` begins as JUnit files of any program do."""
    with file.open("rb") as content:
        try:
            _, root = next(ElementTree.iterparse(content, events=["start"]))
        except (ElementTree.ParseError, LookupError, ValueError):  # not XML, or in an encoding that is not known
            return False
    return root.tag in ("testsuite", "testsuites")
