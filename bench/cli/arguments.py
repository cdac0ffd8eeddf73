"""The command line: verbs and flags, and one line for a mistake in them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.cli import flag_types as values
from bench.cli import verbs
from bench.cli.parser import Parser
from bench.cli.requests import DEFAULT_OUT, DEFAULT_SUITE

ABOUT = "Compare methods for pruning attention heads of transformers."
DEVICE: dict[str, Any] = {
    "choices": ("auto", "cpu", "cuda"),
    "default": "auto",
    "help": "default: a GPU if there is one",
}
SHARE: dict[str, Any] = {
    "metavar": "SHARE",
    "help": "share of the most steps that the task trains its own model for, which methods that train take for each "
    "budget, at least one step (default: the suite's; 1 for a task of one's own without --suite)",
}
EXAMPLES = """\
examples:
  headbench run                                    every method on the built-in tasks
  headbench run --methods none,random,michel:layer_norm=false --tasks mnli --seeds 1
  headbench run --task classification --model DIR --data FILE --text COLUMN --label COLUMN
  headbench prune --task classification --model DIR --data FILE --method michel --keep 0.5 --out SMALLER
  headbench check my-method                        does it keep the rules of all methods?
  headbench list methods                           the methods and their options
  headbench leaderboard runs/mini                  the leaderboard of an earlier run
  headbench report runs/mini                       pages, figures and tables of it, in runs/mini/report
  headbench compare michel ae runs/mini            does one keep more than the other, and can the seeds show it?
  headbench regress --baseline results runs/mini   did a change break a method?

`headbench VERB --help` shows the flags of a verb."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed command line, with the function to call as ``verb``. Exits with 2 on a mistake."""
    parser = Parser(prog="headbench", description=ABOUT, epilog=EXAMPLES, allow_abbrev=False)
    parsers = parser.add_subparsers(dest="name", metavar="VERB", required=True)

    run = _verb(parsers, "run", "run a suite, or your own model and data, and show the leaderboard", verbs.run)
    _add_suite(run)
    _add_own(run, "your own model and data (instead of a suite's tasks)")
    run.add_argument(
        "--jobs", type=values.positive, metavar="N", help="processes, one thread each (default: one a core; 1 on a GPU)"
    )
    run.add_argument("--retry-failed", action="store_true", help="run cells again that failed before")
    run.add_argument("--dry-run", action="store_true", help="show cells, what is there already, and the time expected")
    run.add_argument("--no-cache", action="store_true", help="train models for this run only")

    listing = _verb(
        parsers, "list", "list methods, tasks, suites, or the cells that the same flags would run", verbs.list_
    )
    listing.add_argument(
        "what", metavar="WHAT", choices=("methods", "tasks", "suites", "cells"), help="methods, tasks, suites or cells"
    )
    _add_suite(listing)
    _add_own(listing, "your own model and data (instead of a suite's tasks)")

    prune = _verb(parsers, "prune", "remove heads from a model and save the smaller checkpoint", verbs.prune)
    prune.add_argument("--method", required=True, metavar="NAME:OPTION=VALUE", help="method that chooses the heads")
    prune.add_argument(
        "--keep",
        required=True,
        metavar="0.5|50%|N",
        help="share (0.5, 50%%) or whole number of units to keep; 1 is one unit",
    )
    prune.add_argument("--out", required=True, type=values.path, metavar="DIR", help="folder to write, not there yet")
    prune.add_argument(
        "--seed", type=values.whole, default=0, metavar="N", help="of training, sample and draws (default: 0)"
    )
    prune.add_argument(
        "--calibration",
        type=values.positive,
        default=128,
        metavar="N",
        help="training texts to score on (default: 128)",
    )
    prune.add_argument("--training", type=values.training, default=1.0, **SHARE)
    prune.add_argument("--device", **DEVICE)
    _add_own(prune, "model and data")

    check = _verb(parsers, "check", "check that methods keep the rules that every method has to keep", verbs.check)
    check.add_argument("methods", metavar="NAME[:OPTION=VALUE]|A,B|all", help="methods, with their options")
    check.add_argument("--only", type=values.filled, metavar="A,B", help="only these checks")
    check.add_argument(
        "--on", type=values.filled, metavar="A,B", help="only on these tiny models, named in the first line"
    )
    check.add_argument(
        "--baseline",
        type=values.path,
        metavar="DIR",
        help="recorded run that has the cells of suite smoke (default: results; nothing is run with --only or --on)",
    )

    board = _verb(parsers, "leaderboard", "draw the leaderboard from records alone", verbs.leaderboard)
    _add_folder(board, "folder of a run")
    board.add_argument(
        "--format", choices=("md", "csv", "html", "latex"), default="md", help="what to print (default: md)"
    )

    shown = _verb(parsers, "report", "make a folder of pages, figures and tables that opens from disk", verbs.report)
    _add_folder(shown, "folder of a run")
    shown.add_argument(
        "--out", type=values.path, metavar="FOLDER", help="where it goes (default: report, in that folder)"
    )

    versus = _verb(
        parsers,
        "compare",
        "say whether one method keeps more than another, and whether the seeds can show it",
        verbs.compare,
    )
    versus.add_argument("a", metavar="A", help="method, as the leaderboard names it")
    versus.add_argument("b", metavar="B", help="another")
    _add_folder(versus, "folder of a run")
    versus.add_argument(
        "--task", type=values.filled, metavar="A,B", help="only these tasks, by adapter or data (default: all)"
    )
    versus.add_argument(
        "--level",
        type=values.level,
        metavar="0.5|50%",
        help="at this share removed (default: the mean over all shares)",
    )
    versus.add_argument(
        "--alpha", type=values.share, default=0.05, metavar="P", help="level of the tests and intervals (default: 0.05)"
    )
    watch = _verb(
        parsers, "regress", "say whether a change broke a method, by the records of a baseline", verbs.regress
    )
    _add_folder(watch, "folder of the run to judge")
    watch.add_argument(
        "--baseline", required=True, type=values.path, metavar="DIR", help="folder of the run to judge it by"
    )
    watch.add_argument("--methods", type=values.filled, metavar="A,B", help="only these, as the leaderboard names them")
    watch.add_argument(
        "--changed",
        type=values.filled,
        metavar="A,B",
        help="methods that are new or meant to differ: only a loss beyond the margin, or a cost, fails them",
    )
    watch.add_argument(
        "--margin",
        type=values.points,
        default=0.5,
        metavar="POINTS",
        help="area that may be lost (default: 0.5 points)",
    )
    watch.add_argument(
        "--slower",
        type=values.share,
        default=0.15,
        metavar="SHARE",
        help="more scoring that is allowed (default: 0.15)",
    )
    watch.add_argument(
        "--junit", type=values.file, metavar="FILE", help="write the verdicts for continuous integration too"
    )
    known, extra = parser.parse_known_args(arguments)
    if extra:
        known.parser.error(f"unrecognized arguments: {extra[0]}")
    return known


def _verb(parsers, name: str, summary: str, function: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    """A verb's own parser, which knows what is nearest to a mistyped flag of it."""
    parser = parsers.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(verb=function, parser=parser)
    return parser


def _add_folder(parser: argparse.ArgumentParser, said: str) -> None:
    mini = Path(DEFAULT_OUT.format(suite=DEFAULT_SUITE))
    parser.add_argument("folder", nargs="?", type=values.path, default=mini, help=f"{said} (default: {mini})")


def _add_suite(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--suite",
        type=values.filled,
        metavar="NAME|FILE",
        help=f"built-in suite or TOML file (default: {DEFAULT_SUITE})",
    )
    add("--methods", metavar="all|A,B:OPTION=VALUE", help="methods to run, with their options (default: the suite's)")
    add("--tasks", metavar="A,B", help="only these tasks of the suite")
    add("--seeds", metavar="N|A,B,C", help="number of seeds, or the seeds; 7, is seed 7 alone (default: the suite's)")
    add("--levels", metavar="all|A,B", help="shares of heads removed at which quality is measured, as 0.5 or 50%%")
    add("--out", type=values.path, metavar="DIR", help=f"where records go (default: {DEFAULT_OUT})")
    add("--training", type=values.training, **SHARE)
    add("--generate", action="store_true", help="time generation by language models too, and all speed at --levels")
    add("--device", **DEVICE)


def _add_own(parser: argparse.ArgumentParser, title: str) -> None:
    add = parser.add_argument_group(title).add_argument
    add("--task", type=values.filled, metavar="NAME", help="task adapter (see `headbench list tasks`)")
    add("--model", type=values.filled, metavar="DIR|ID", help="model (default: a small one, trained on the data)")
    add("--data", type=values.filled, metavar="FILE|DIR|ID", help="JSONL, CSV, Parquet, a folder of them, or a hub id")
    add("--text", metavar="COL[,COL]", help="column of the text, or of both texts of a pair (default: the adapter's)")
    add("--label", type=values.filled, metavar="COL", help="column of the label (default: label)")
    add("--finetune", action="store_true", help="train the model on the training split first")
    add("--limit", type=values.positive, metavar="N", help="use at most N examples of each split")
    add("--harness-tasks", metavar="A,B|DIR", help="tasks of lm-eval, or a folder of task files, for --task harness")
    add(
        "--dtype",
        type=values.filled,
        metavar="float32|bfloat16|float16|auto",
        help="of a language model's weights (default: float32)",
    )
    add(
        "--device-map",
        type=values.filled,
        metavar="auto",
        help="spread a language model over all GPUs (default: one device holds it)",
    )
    add(
        "--unit",
        choices=("group", "query"),
        help="what can be removed of a model with fewer key/value than query heads: "
        "a key/value head with its query heads, or one query head of every key/value head of a layer (default: group)",
    )
    add("--mirror", type=values.filled, metavar="DIR", help="folder with local copies of hub ids (or HEADBENCH_MIRROR)")
