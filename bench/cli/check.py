"""The verb ``check``: does a method keep the rules that every method has to keep?"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Collection, Sequence
from itertools import groupby

import torch

from bench.records.errors import InputError, unknown
from bench.suites.parse import parse_methods
from methods import METHODS, OptionError
from methods.checks import CHECKS, SCENES, Case, Failure, NotApplicable, Subject, cases

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"


def check(methods: str, only: str | None, on: str | None) -> int:
    """Check ``methods``, and print a line for each check; 0, or 1 where one failed.

    methods: as a command line writes them. only, on: names of checks and of tiny models, with commas between; None for
    all. A single case that fails is shown with its traceback. Raises InputError.
    """
    torch.set_num_threads(1)  # as in a run; on tiny models, threads only wait for each other
    subjects = [Subject(METHODS[spec.name], spec.options) for spec in parse_methods(methods)]
    checks = _chosen("check", only, [each.name for each in CHECKS])
    models = _chosen("tiny model", on, [scene.name for scene in SCENES])
    scenes = [scene for scene in SCENES if scene.name in models]
    todo = [case for case in cases(subjects, scenes) if case.check.name in checks]
    begin, counts = time.perf_counter(), dict.fromkeys((OK, FAILED, SKIPPED), 0)
    print(f"On tiny random models: {', '.join(f'{scene.name} ({scene.about})' for scene in scenes)}.")
    for label, of_method in groupby(todo, key=lambda case: case.subject.label):
        groups = [list(group) for _, group in groupby(of_method, key=lambda case: case.check)]
        print(f"{label}{' (its function: see above)' if len(groups) < len(checks) else ''}", flush=True)
        for group in groups:
            status, details = _judge(group, alone=len(todo) == 1)
            print(f"  {status:8} {group[0].check.name}{details}", flush=True)
            counts[status] += 1
    said = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    print(f"{said} in {time.perf_counter() - begin:.1f} s")
    return 1 if counts[FAILED] else 0


def _judge(group: Sequence[Case], alone: bool) -> tuple[str, str]:
    """One check on every kind of model: its status, and what to say of it."""
    failures: dict[str, list[Case]] = {}
    reasons: dict[str, list[Case]] = {}
    for case in group:
        try:
            case.run()
        except Failure as failure:
            if isinstance(failure.__cause__, OptionError):
                raise InputError(f"{case.subject.label}: {failure.__cause__}") from failure
            failures.setdefault(str(failure), []).append(case)
            if alone and failure.__cause__:
                traceback.print_exception(failure.__cause__, file=sys.stderr)
        except NotApplicable as reason:
            reasons.setdefault(str(reason), []).append(case)
    skipped = [
        f"not on {_names(some)}: {reason}" if len(some) < len(group) else reason for reason, some in reasons.items()
    ]
    if not failures:
        status = SKIPPED if sum(map(len, reasons.values())) == len(group) else OK
        return status, f" ({'; '.join(skipped)})" if skipped else ""
    lines = [f"\n           must hold: {group[0].check.holds}"]
    for said, some in failures.items():
        lines += [f"           {_names(some)}: {said}", f"           again: {some[0].command}"]
    return FAILED, "\n".join(lines)


def _names(group: Sequence[Case]) -> str:
    return ", ".join(case.scene.name for case in group)


def _chosen(kind: str, text: str | None, known: Sequence[str]) -> Collection[str]:
    """Names in ``text``, all where there is none. Raises InputError for one that is not ``known``."""
    if text is None:
        return known
    names = {name.strip() for name in text.split(",")}
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
    return names
