"""The command line: verbs and flags, and one line for a mistake in them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

DEFAULT_OUT = "runs/{suite}"


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, with the nearest flag or choice."""

    def error(self, message: str) -> NoReturn:
        flags = [flag for action in self._actions for flag in action.option_strings]
        if unknown := re.search(r"unrecognized arguments: (\S+)", message):
            near = get_close_matches(unknown[1].split("=")[0], flags, n=1)
            message = f"unknown argument {unknown[1]!r}" + (f": did you mean {near[0]}?" if near else "")
        elif choice := re.search(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)", message):
            options = re.findall(r"[\w-]+", choice[3])
            near = get_close_matches(choice[2], options, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(options)}"
            message = f"{choice[1]}: unknown {choice[2]!r}: {hint}"
        print(f"headbench: error: {message}", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed command line, with the function to call as ``verb``. Exits with 2 on a mistake."""
    parser = _Parser(prog="headbench", description="Compare methods for pruning attention heads.", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="name", metavar="VERB", required=True)

    run = verbs.add_parser("run", help="run a suite and show its leaderboard", allow_abbrev=False)
    _add_suite(run)
    run.add_argument(
        "--jobs", type=_positive, metavar="N", help="processes, one thread each (default: one a core; 1 on a GPU)"
    )
    run.add_argument("--retry-failed", action="store_true", help="run cells again that failed before")
    run.add_argument("--dry-run", action="store_true", help="show cells, what is there already, and the time expected")
    run.add_argument("--no-cache", action="store_true", help="train models for this run only")
    run.set_defaults(verb=_run)

    listing = verbs.add_parser("list", help="list methods, tasks, suites or cells", allow_abbrev=False)
    listing.add_argument("what", choices=("methods", "tasks", "suites", "cells"))
    _add_suite(listing)
    listing.set_defaults(verb=_list)

    board = verbs.add_parser("leaderboard", help="draw the leaderboard from records alone", allow_abbrev=False)
    board.add_argument(
        "folder", nargs="?", type=Path, default=Path(DEFAULT_OUT.format(suite="mini")), help="a folder of a run"
    )
    board.add_argument("--format", choices=("md", "csv"), default="md", help="what to print; all formats are written")
    board.set_defaults(verb=_leaderboard)
    # Flags after a verb are that verb's: its own parser knows what is nearest to a mistyped one.
    for verb in (run, listing, board):
        verb.set_defaults(parser=verb)
    known, extra = parser.parse_known_args(arguments)
    if extra:
        known.parser.error(f"unrecognized arguments: {extra[0]}")
    return known


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite", default="mini", metavar="NAME|FILE", help="built-in suite or TOML file (default: mini)"
    )
    parser.add_argument("--methods", metavar="all|A,B:OPTION=VALUE", help="methods to run")
    parser.add_argument("--tasks", metavar="A,B", help="only these tasks of the suite")
    parser.add_argument("--seeds", metavar="N|A,B,C", help="number of seeds, or the seeds")
    parser.add_argument("--levels", metavar="all|A,B", help="shares of heads removed at which quality is measured")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where records go (default: {DEFAULT_OUT})")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    own = parser.add_argument_group("your own model and data (instead of a suite's tasks)")
    own.add_argument("--task", metavar="NAME", help="task adapter")
    own.add_argument("--model", default="", metavar="DIR|ID", help="model (default: a small one, trained on the data)")
    own.add_argument(
        "--data", default="", metavar="FILE|DIR|ID", help="JSONL, CSV, Parquet, a folder of them, or a hub id"
    )
    own.add_argument("--text", default="", metavar="COL[,COL]", help="column of the text, or of both texts of a pair")
    own.add_argument("--label", default="", metavar="COL", help="column of the label")
    own.add_argument("--finetune", action="store_true", help="train the model on the training split first")
    own.add_argument("--limit", type=_positive, default=0, metavar="N", help="use at most N examples of each split")
    own.add_argument(
        "--mirror",
        default=os.environ.get("HEADBENCH_MIRROR", ""),
        metavar="DIR",
        help="folder with local copies of hub ids (or HEADBENCH_MIRROR)",
    )


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, not {text!r}")
    return number


def _suite(options: argparse.Namespace):
    """The suite that the command line asks for. Raises InputError."""
    from dataclasses import replace

    from bench.errors import InputError, unknown
    from bench.suite import check_task, load_suite, parse_levels, parse_methods, parse_seeds
    from tasks.contract import TaskSpec

    suite = load_suite(options.suite)
    own = {name: getattr(options, name) for name in ("model", "data", "label", "finetune", "limit")}
    if options.task or any(own.values()) or options.text:
        if not options.task:
            raise InputError("--task NAME is needed with --model, --data and the other flags of your own task")
        columns = tuple(filter(None, options.text.split(",")))
        task = TaskSpec(check_task(options.task), text=columns, **own)
        suite = replace(suite, name=f"own-{options.task}", tasks=(task,))
    suite = replace(suite, tasks=tuple(replace(task, mirror=task.mirror or options.mirror) for task in suite.tasks))
    if options.tasks:
        wanted = [check_task(name.strip()) for name in options.tasks.split(",")]
        for name in wanted:
            if name not in {task.task for task in suite.tasks}:
                raise unknown(f"task of suite {suite.name}", name, {task.task for task in suite.tasks})
        suite = replace(suite, tasks=tuple(task for task in suite.tasks if task.task in wanted))
    return replace(
        suite,
        methods=suite.methods if options.methods is None else parse_methods(options.methods),
        seeds=suite.seeds if options.seeds is None else parse_seeds(options.seeds),
        levels=suite.levels if options.levels is None else parse_levels(options.levels),
    )


def _out(options: argparse.Namespace, suite) -> Path:
    return options.out or Path(DEFAULT_OUT.format(suite=suite.name))


def _device(options: argparse.Namespace) -> str:
    """``cpu`` or ``cuda``. Raises InputError where a GPU is asked for and there is none."""
    import torch

    from bench.errors import InputError

    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu"


def _run(options: argparse.Namespace) -> int:
    from bench.run import RunOptions, run

    suite, device = _suite(options), _device(options)
    jobs = options.jobs or (1 if device == "cuda" else len(os.sched_getaffinity(0)))
    return run(
        suite, RunOptions(_out(options, suite), jobs, device, options.retry_failed, options.dry_run, options.no_cache)
    )


def _list(options: argparse.Namespace) -> int:
    from bench import listing
    from bench.plugins import load_plugins

    load_plugins()
    if options.what == "cells":
        suite = _suite(options)
        print(listing.cells(suite, _out(options, suite), _device(options)))
    else:
        print(getattr(listing, options.what)())
    return 0


def _leaderboard(options: argparse.Namespace) -> int:
    from bench import leaderboard

    text = leaderboard.show(options.folder, options.format)
    leaderboard.write(options.folder)
    print(text, end="")
    return 0
