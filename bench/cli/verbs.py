"""The verbs: each takes the parsed flags and returns the exit code.

Modules that take seconds to import are imported by the verb that needs them.
"""

from __future__ import annotations

import argparse
import sys

from bench.cli.requests import cluster_of, device_of, out_of, own_task, suite_of
from bench.process import signals
from bench.records.errors import InputError
from tasks.request import flag_of


def show_help(options: argparse.Namespace) -> int:
    """Print the help."""
    options.parser.print_help()
    return 0


def run(options: argparse.Namespace) -> int:
    """Run a suite and show its leaderboard; 1 if a cell failed or was not timed."""
    from bench.run.options import RunOptions
    from bench.run.runner import run

    cluster = cluster_of(options)
    suite, device = suite_of(options), device_of(options)
    options.out = out_of(options, suite)
    _warn_of_faults()
    return run(
        suite,
        RunOptions(
            options.out,
            options.jobs or (1 if device == "cuda" and cluster is None else None),
            device,
            retry_failed=options.retry_failed,
            dry_run=options.dry_run,
            no_cache=options.no_cache,
            latency=not options.no_latency,
            timeout=options.timeout,
            cluster=cluster,
        ),
    )


def prune(options: argparse.Namespace) -> int:
    """Save a smaller checkpoint."""
    from bench.prune.options import PruneOptions
    from bench.prune.prune import prune
    from bench.run.jobs import start_process
    from bench.suites.parse import parse_methods
    from tasks.models.cache import Cache, default_root

    start_process()
    task = own_task(options)
    if task is None:
        raise InputError("--task NAME is needed: it says what the model is for (see `headbench list tasks`)")
    whole = options.method + (f",recover={options.recover}" if options.recover else "")
    methods = () if options.method.rstrip().endswith(",") else parse_methods(whole)
    if len(methods) != 1:
        raise InputError(f"--method {options.method}: expected one method, with its options")
    if options.uniform and "allocation=global" in "".join(whole.split()):
        raise InputError("--uniform keeps the same number in every layer: leave allocation=global out")
    wanted = PruneOptions(
        task=task,
        method=methods[0],
        keep=options.keep,
        out=options.out,
        seed=options.seed,
        calibration=options.calibration,
        calibration_from=options.calibration_from,
        training=options.training,
        device=device_of(options),
        uniform=options.uniform,
        export=options.export,
    )
    signals.at_work()
    return prune(wanted, Cache(default_root(wanted.device)))


def list_(options: argparse.Namespace) -> int:
    """Print what is available, or the cells of a suite."""
    given = [name for name, value in vars(options).items() if value != options.parser.get_default(name)]
    if options.what != "cells" and (flags := [name for name in given if name not in ("name", "what")]):
        raise InputError(f"{flag_of(flags[0])} is for `headbench list cells`: it changes no {options.what}")
    from bench.cli import listing
    from bench.suites.plugins import load_plugins

    load_plugins()
    if options.what == "cells":
        suite = suite_of(options)
        print(listing.cells(suite, out_of(options, suite), device_of(options)))
    else:
        print(getattr(listing, options.what)())
    _warn_of_faults()
    return 0


def check(options: argparse.Namespace) -> int:
    """Check methods and, if there are records of them, their cells on a small suite; 1 if one breaks a rule."""
    from bench.cli.check import check
    from bench.records.storage.current import read_current
    from bench.suites.plugins import load_plugins, quiet_libraries

    some = options.only or options.on
    if options.baseline and some:
        raise InputError("--baseline: cells are compared after all checks, so leave out --only and --on")
    if options.baseline:
        read_current(options.baseline)  # before checks that take minutes
    quiet_libraries()
    load_plugins()
    signals.at_work()
    code = check(options.methods, options.only, options.on)
    if some:
        return code
    from bench.run.check_against_records import check_against_records

    return max(code, check_against_records(options.methods, options.baseline))


def leaderboard(options: argparse.Namespace) -> int:
    """Write the leaderboard of a run again, and print it."""
    from bench.cli.leaderboard import show

    show(options.folder, options.format, options.sort, by_schedule=bool(options.by))
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the pages of a run."""
    from bench.report.write import report

    print(report(options.folder, options.out or options.folder / "report"))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Print whether one method keeps more than another."""
    from bench.analysis.comparing.comparison import compare
    from bench.report.comparison_text import text

    tasks = _names("tasks", options.tasks, "TASK")
    found = compare(options.folder, options.a, options.b, tasks, options.level, options.alpha, options.up_to)
    print(text(found))
    return 0


def regress(options: argparse.Namespace) -> int:
    """Compare a run with a baseline; 1 if a method regressed."""
    from bench.analysis.regression.verdict import Limits
    from bench.cli.regress import regress

    methods, changed = _labels("methods", options.methods), _labels("changed", options.changed)
    limits = Limits(points=options.margin, slower=options.slower)
    return regress(options.baseline, options.folder, methods, changed, limits, options.junit)


def merge(options: argparse.Namespace) -> int:
    """Put the records of several runs into one folder."""
    from bench.cli.merge import merge_runs

    return merge_runs(options.folders, options.out)


def pack(options: argparse.Namespace) -> int:
    """Put the records of a run into one file."""
    from bench.analysis.naming import count
    from bench.records.storage.packing import pack

    packed = pack(options.folder)
    print(f"{packed.archive}: {count(packed.records, 'record')}, {packed.archive.stat().st_size / 2**20:.1f} MB")
    if packed.other_protocol:
        print(f"left out: {count(packed.other_protocol, 'record')} made under another protocol")
    print(f"It is read where {packed.archive.parent / 'records'}, which stays, is not there.")
    return 0


def unpack(options: argparse.Namespace) -> int:
    """Take the records of a run out of their file."""
    from bench.analysis.naming import count
    from bench.records.storage.packing import unpack

    records, number = unpack(options.folder)
    print(f"{records}: {count(number, 'record')}")
    return 0


def gguf(options: argparse.Namespace) -> int:
    """Write a pruned checkpoint as a GGUF file."""
    from bench.exports.gguf_files import write_gguf

    found = write_gguf(options.folder, options.like, options.out)
    print(f"{options.out}: {found.architecture}, {', '.join(map(str, found.heads))} heads by layer")
    if found.window:
        print(
            f"The checkpoint attends to the last {found.window:,} tokens, a program that reads the file to all: beyond "
            f"{found.window:,} tokens they differ."
        )
    return 0


def _names(flag: str, text: str | None, one: str) -> list[str]:
    """Names in ``a,b``, each of ``one``, as the help calls it. Raises InputError for an empty name."""
    names = [name.strip() for name in text.split(",")] if text else []
    if "" in names:
        raise InputError(f"--{flag} {text!r}: expected {one}, or {one},{one}, found an empty name")
    return names


def _labels(flag: str, text: str | None) -> list[str]:
    """Labels in ``a,b:option=value,option=value``: an option without a name belongs to the label before it.

    Raises InputError for an empty name.
    """
    labels: list[str] = []
    for part in _names(flag, text, "METHOD"):
        if labels and "=" in part and ":" not in part:
            labels[-1] += f",{part}"
        else:
            labels.append(part)
    return labels


def _warn_of_faults() -> None:
    """Print a line for each plugin that does not load."""
    from bench.suites.plugins import load_plugins

    for fault in load_plugins():
        print(f"headbench: warning: {fault.message}", file=sys.stderr)
