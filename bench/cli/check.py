"""The verb ``check``: does a method keep the rules for all methods?"""

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
from methods.checks import CHECKS, TINY_MODELS, Case, ConfiguredMethod, Failure, NotApplicable, cases

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"


def check(methods: str, only: str | None, on: str | None) -> int:
    """Check ``methods`` and print one line per check. Returns 0, or 1 if a check failed.

    methods: as on the command line. only, on: comma-separated names of checks and of tiny models; None for all.
    Prints the traceback if the only case fails. Raises InputError, also if no check applies.
    """
    torch.set_num_threads(1)  # as in a run; tiny models gain nothing from more
    configured = [ConfiguredMethod(METHODS[spec.name], spec.options) for spec in parse_methods(methods)]
    checks = _chosen("check", only, [each.name for each in CHECKS])
    names = _chosen("tiny model", on, [model.name for model in TINY_MODELS])
    models = [model for model in TINY_MODELS if model.name in names]
    todo = [case for case in cases(configured, models) if case.check.name in checks]
    if not todo:
        raise InputError(f"no check to run: {', '.join(checks)} does not apply to {methods}")
    begin, counts = time.perf_counter(), dict.fromkeys((OK, FAILED, SKIPPED), 0)
    print(f"On tiny random models: {', '.join(f'{model.name} ({model.about})' for model in models)}.")
    functions: list[object] = []
    for method, of_method in groupby(todo, key=lambda case: case.configured):
        groups = [list(group) for _, group in groupby(of_method, key=lambda case: case.check)]
        function = (method.method.function, method.own_options)
        print(f"{method.label}{' (checks of its function: see above)' if function in functions else ''}", flush=True)
        functions.append(function)
        for group in groups:
            status, details = _judge(group, alone=len(todo) == 1)
            print(f"  {status:8} {group[0].check.name}{details}", flush=True)
            counts[status] += 1
    totals = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    print(f"{totals} in {time.perf_counter() - begin:.1f} s")
    return 1 if counts[FAILED] else 0


def _judge(group: Sequence[Case], alone: bool) -> tuple[str, str]:
    """Status of one check on all tiny models, and details to print after it."""
    failures: dict[str, list[Case]] = {}
    reasons: dict[str, list[Case]] = {}
    for case in group:
        try:
            case.run()
        except Failure as failure:
            if isinstance(failure.__cause__, OptionError):
                raise InputError(f"{case.configured.label}: {failure.__cause__}") from failure
            failures.setdefault(str(failure), []).append(case)
            if alone and failure.__cause__:
                traceback.print_exception(failure.__cause__, file=sys.stderr)
        except NotApplicable as reason:
            reasons.setdefault(str(reason), []).append(case)
    skipped = [
        f"skipped on {_names(some)}: {reason}" if len(some) < len(group) else reason for reason, some in reasons.items()
    ]
    if not failures:
        status = SKIPPED if sum(map(len, reasons.values())) == len(group) else OK
        return status, f" ({'; '.join(skipped)})" if skipped else ""
    lines = [f"\n           must hold: {group[0].check.rule}"]
    for message, some in failures.items():
        lines += [f"           {_names(some)}: {message}", f"           again: {some[0].command}"]
    return FAILED, "\n".join(lines)


def _names(group: Sequence[Case]) -> str:
    return ", ".join(case.on.name for case in group)


def _chosen(kind: str, text: str | None, known: Sequence[str]) -> Collection[str]:
    """Comma-separated names in ``text``; all that are ``known`` without one. Raises InputError for others."""
    if text is None:
        return known
    names = {name.strip() for name in text.split(",")}
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
    return names
