"""The verbs of the command line: each takes the parsed flags and gives the exit code.

What takes seconds to import is imported by the verb that needs it.
"""

from __future__ import annotations

import argparse
import os

from bench.cli.requests import device_of, out_of, own_task, suite_of


def run(options: argparse.Namespace) -> int:
    """Run a suite and show its leaderboard; 1 where a cell failed."""
    from bench.run.runner import RunOptions, run

    suite, device = suite_of(options), device_of(options)
    jobs = options.jobs or (1 if device == "cuda" else _cores())
    return run(
        suite, RunOptions(out_of(options, suite), jobs, device, options.retry_failed, options.dry_run, options.no_cache)
    )


def prune(options: argparse.Namespace) -> int:
    """Save a smaller checkpoint."""
    from bench.prune.prune import PruneOptions, prune
    from bench.records.errors import InputError
    from bench.run.jobs import start_process
    from bench.suites.parse import parse_methods
    from tasks.models.cache import Cache, default_root

    start_process()
    task = own_task(options)
    if task is None:
        raise InputError("--task NAME is needed: it says what the model is for (see `headbench list tasks`)")
    methods = parse_methods(options.method)
    if len(methods) != 1:
        raise InputError(f"--method {options.method}: expected one method, with its options")
    wanted = PruneOptions(
        task=task,
        method=methods[0],
        keep=options.keep,
        out=options.out,
        seed=options.seed,
        calibration=options.calibration,
        training=options.training,
        device=device_of(options),
    )
    return prune(wanted, Cache(default_root()))


def list_(options: argparse.Namespace) -> int:
    """Print what there is, or the cells of a suite."""
    from bench.cli import listing
    from bench.records.errors import InputError
    from bench.suites.plugins import load_plugins

    load_plugins()
    if options.what == "cells":
        suite = suite_of(options)
        print(listing.cells(suite, out_of(options, suite), device_of(options)))
        return 0
    given = [name for name, value in vars(options).items() if value != options.parser.get_default(name)]
    if flags := [name for name in given if name not in ("name", "what")]:
        raise InputError(f"--{flags[0].replace('_', '-')} is for `headbench list cells`: it changes no {options.what}")
    print(getattr(listing, options.what)())
    return 0


def check(options: argparse.Namespace) -> int:
    """Check methods, and their cells on a small suite where such are recorded; 1 where one breaks a rule."""
    from bench.cli.check import check
    from bench.suites.plugins import load_plugins, quiet_libraries

    quiet_libraries()
    load_plugins()
    code = check(options.methods, options.only, options.on)
    if options.only or options.on:
        return code
    from bench.run.check_against_records import check_against_records

    return max(code, check_against_records(options.methods, options.baseline))


def leaderboard(options: argparse.Namespace) -> int:
    """Draw the leaderboard of a run anew, and print it."""
    from bench.report import leaderboard

    if options.format in ("html", "latex"):
        from bench.report.write import main_table_as

        text = main_table_as(options.folder, options.format)
    else:
        text = leaderboard.show(options.folder, options.format)
    leaderboard.write(options.folder)
    print(text, end="")
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the pages of a run."""
    from bench.report.write import report

    print(report(options.folder, options.out or options.folder / "report"))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Print whether one method keeps more than another."""
    from bench.analysis.comparison import compare
    from bench.report.comparison_text import text

    tasks = [name.strip() for name in options.task.split(",")] if options.task else []
    print(text(compare(options.folder, options.a, options.b, tasks, options.level, options.alpha)))
    return 0


def regress(options: argparse.Namespace) -> int:
    """Judge a run by a baseline; 1 where a method broke."""
    from bench.analysis.regression.verdict import Limits
    from bench.cli.regress import regress

    methods, changed = _labels("methods", options.methods), _labels("changed", options.changed)
    limits = Limits(points=options.margin, slower=options.slower)
    return regress(options.baseline, options.folder, methods, changed, limits, options.junit)


def _labels(flag: str, text: str | None) -> list[str]:
    """Methods by their labels, ``a,b:option=value,option=value``: a part without a name belongs to the one before.

    Raises InputError for a part that is empty.
    """
    from bench.records.errors import InputError

    labels: list[str] = []
    for part in (part.strip() for part in text.split(",")) if text else ():
        if not part:
            raise InputError(f"--{flag} {text!r}: expected METHOD, or METHOD,METHOD, found nothing at a comma")
        if labels and "=" in part and ":" not in part:
            labels[-1] += f",{part}"
        else:
            labels.append(part)
    return labels


def _cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
