"""The command line: verbs and flags, and one line for a mistake in them. Must not import torch."""

from __future__ import annotations

import argparse
from typing import get_args

from bench import __version__
from bench.cli import flag_types as types
from bench.cli import flags, verbs
from bench.cli.names import check_names
from bench.cli.parser import Parser
from bench.prune.defaults import DEFAULTS, Export

ABOUT = "Compare methods for pruning attention heads of transformers."
EXAMPLES = """\
examples:
  headbench run                                    every method on the built-in tasks
  headbench run --methods none,random,michel:layer_norm=false --tasks mnli --seeds 1
  headbench run --task classification --model DIR --data FILE --text COLUMN --label COLUMN
  headbench prune --task classification --model DIR --data FILE --method obs --recover lstsq --keep 0.5 --out SMALLER
  headbench check my-method                        does it follow the rules for all methods?
  headbench list methods                           the methods and their options
  headbench leaderboard runs/mini                  the leaderboard of an earlier run
  headbench report runs/mini                       pages, figures and tables of it, in runs/mini/report
  headbench compare michel ae runs/mini            does one keep more than the other, and can the seeds show it?
  headbench regress --baseline DIR runs/mini       did a change break a method?
  headbench merge runs/a runs/b --out runs/both    records of two machines in one folder
  headbench pack runs/mini                         its records as one small file, to keep or pass on

`headbench VERB --help` shows the flags of a verb."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed command line, with the function to call as ``verb``. Exits with 2 on a mistake."""
    parser = Parser(prog="headbench", description=ABOUT, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"headbench {__version__}")
    parser.set_defaults(verb=verbs.show_help, parser=parser)
    parsers = parser.add_subparsers(dest="name", metavar="VERB")
    on_models, on_records = (_prune, _check, _gguf), (_leaderboard, _report, _compare, _regress, _merge, _pack, _unpack)
    for add in (_run, _list, *on_models, *on_records):
        add(parsers)
    known, extra = parser.parse_known_args(arguments)
    if getattr(known, "folder", None) is flags.MINI and len(extra) == 1 and not extra[0].startswith("-"):
        # Where names stand before a flag, argparse takes the folder, which need not be given, for left out.
        try:
            known.folder = types.path(extra.pop())
        except argparse.ArgumentTypeError as error:
            known.parser.error(f"folder: {error}")
    elif getattr(known, "folders", None) and not any(text.startswith("-") for text in extra):
        # It ends a list of names at the first flag.
        try:
            known.folders += map(types.path, extra)
        except argparse.ArgumentTypeError as error:
            known.parser.error(f"folders: {error}")
        extra = []
    if extra:
        known.parser.error(f"unrecognized arguments: {extra[0]}")
    check_names(known)
    return known


def _run(parsers) -> None:
    parser = flags.add_verb(
        parsers, "run", "run a suite, or your own model and data, and print the leaderboard", verbs.run
    )
    flags.add_suite(parser)
    flags.add_own(parser, "your own model and data (instead of a suite's tasks)")
    add = parser.add_argument
    add(
        "--jobs",
        type=types.positive,
        metavar="N",
        help="cells at once, one thread each (default: one per core, 1 on GPU; on a cluster, all that it has room for)",
    )
    add("--timeout", type=types.seconds, metavar="SECONDS", help="end a cell that takes longer; it counts as failed")
    add("--retry-failed", action="store_true", help="run cells again that failed before")
    add("--dry-run", action="store_true", help="show the cells, which have a record already, and the expected time")
    add("--no-cache", action="store_true", help="train models for this run only, and keep none")
    add("--no-latency", action="store_true", help="do not time the smaller models")
    group = parser.add_argument_group("a cluster (see docs/cluster.md)")
    add = group.add_argument
    add("--engine", choices=("local", "ray"), default="local", help="where cells run (default: local processes)")
    add(
        "--address",
        type=types.filled,
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="of a Ray cluster (default: start one on this machine)",
    )
    add("--cpus-per-cell", type=types.positive, metavar="N", help="CPUs of a cell, and its threads (default: 1)")
    add(
        "--gpus-per-cell",
        type=types.gpus,
        metavar="F",
        help="GPUs of a cell: 0.5 for two cells on one (default: 0; 1 with --device cuda)",
    )


def _list(parsers) -> None:
    summary = "list methods, tasks, suites, or the cells that these flags would run"
    parser = flags.add_verb(parsers, "list", summary, verbs.list_)
    choices = ("methods", "tasks", "suites", "cells")
    parser.add_argument("what", metavar="WHAT", choices=choices, help="methods, tasks, suites or cells")
    flags.add_suite(parser)
    flags.add_own(parser, "your own model and data (instead of a suite's tasks)")


def _prune(parsers) -> None:
    parser = flags.add_verb(parsers, "prune", "remove heads from a model and save the smaller checkpoint", verbs.prune)
    add = parser.add_argument
    chooses = "method that chooses the heads, with its options"
    add("--method", required=True, type=types.filled, metavar="NAME:OPTION=VALUE", help=chooses)
    add(
        "--recover",
        choices=("bias", "scale", "scale-damped", "lstsq"),
        help="give the remaining heads new output weights, without training; short for METHOD:recover=VALUE",
    )
    add(
        "--keep",
        required=True,
        metavar="0.5|50%|N|auto",
        help="share (0.5 or 50%%) or number of units to keep (1 is one unit); with parts=both, a share of "
        "the parameters of both; auto: as many as the method chooses",
    )
    add(
        "--uniform",
        action="store_true",
        help="keep the same number in every layer, so that transformers alone loads the checkpoint",
    )
    add(
        "--export",
        choices=get_args(Export),
        help="also write ONNX files for ONNX Runtime; onnx-int8: in float32 and with int8 weights",
    )
    add("--out", required=True, type=types.path, metavar="DIR", help="folder to write, which must be new or empty")
    seed = "seed of the model's training, the calibration set and the method's random draws"
    add("--seed", type=types.whole, metavar="N", help=f"{seed} (default: %(default)s)")
    add("--calibration", type=types.positive, metavar="N", help="examples to score on (default: %(default)s)")
    source = f"{flags.CALIBRATION_FROM_HELP} (default: %(default)s)"
    add("--calibration-from", **flags.CALIBRATION_FROM, help=source)
    add("--training", **flags.TRAINING, help=f"{flags.TRAINING_HELP} (default: %(default)g)")
    parser.set_defaults(**DEFAULTS)
    add("--device", **flags.DEVICE)
    flags.add_own(parser, "model and data")


def _check(parsers) -> None:
    summary = "test on tiny models whether a method follows the rules for all methods"
    parser = flags.add_verb(parsers, "check", summary, verbs.check)
    add = parser.add_argument
    add("methods", metavar="NAME[:OPTION=VALUE]|A,B|all", help="methods to test, with their options")
    add("--only", type=types.filled, metavar="A,B", help="run only these checks, by the names in the output")
    add("--on", type=types.filled, metavar="A,B", help="use only these tiny models; the first line of output names all")
    add(
        "--baseline",
        type=types.path,
        metavar="DIR",
        help="folder of a run whose records the method's results on the suite smoke are compared with "
        "(default: results/mini; not with --only or --on)",
    )


def _leaderboard(parsers) -> None:
    parser = flags.add_verb(parsers, "leaderboard", "print the leaderboard, from records alone", verbs.leaderboard)
    flags.add_folder(parser, "folder of a run")
    formats = ("md", "csv", "html", "latex")
    add = parser.add_argument
    add("--format", choices=formats, default="md", help="what to print (default: md)")
    add("--by", choices=("schedule",), help="a row for each score, and columns for the schedules that it ran under")
    add("--sort", choices=("area", "area50"), default="area", help="by the area over all shares, or to 50 %% removed")


def _report(parsers) -> None:
    parser = flags.add_verb(
        parsers, "report", "write pages, figures and tables, to open without a server", verbs.report
    )
    flags.add_folder(parser, "folder of a run")
    parser.add_argument("--out", type=types.path, metavar="FOLDER", help="folder to write (default: report, in it)")


def _compare(parsers) -> None:
    summary = "say whether one method keeps more than another, and whether the seeds can show it"
    parser = flags.add_verb(parsers, "compare", summary, verbs.compare)
    add = parser.add_argument
    add("a", metavar="A", help="method, as the leaderboard names it")
    add("b", metavar="B", help="another")
    flags.add_folder(parser, "folder of a run")
    tasks = "only these tasks, by adapter or data (default: all whose unpruned model is better than chance)"
    add("--tasks", "--task", type=types.filled, metavar="A,B", help=tasks)
    add("--level", type=types.level, metavar="0.5|50%", help="at this share removed (default: mean over all shares)")
    add(
        "--up-to",
        type=types.level,
        metavar="0.5|50%",
        help="mean over the shares up to this one (default: all)",
    )
    add(
        "--alpha",
        type=types.probability,
        default=0.05,
        metavar="P",
        help="level of tests and intervals (default: 0.05)",
    )


def _regress(parsers) -> None:
    summary = "say whether a change broke a method, by comparing with the records of a baseline"
    parser = flags.add_verb(parsers, "regress", summary, verbs.regress)
    add = parser.add_argument
    flags.add_folder(parser, "folder of the run to judge")
    add("--baseline", required=True, type=types.path, metavar="DIR", help="folder of the run to compare with")
    add("--methods", type=types.filled, metavar="A,B", help="only these, as the leaderboard names them")
    add(
        "--changed",
        type=types.filled,
        metavar="A,B",
        help="methods that are new or meant to differ: only a loss beyond the margin, or a cost, fails them",
    )
    margin = "points of quality, averaged over the shares removed, that may be lost (default: 0.5)"
    add("--margin", type=types.points, default=0.5, metavar="POINTS", help=margin)
    add("--slower", type=types.share, default=0.15, metavar="SHARE", help="extra scoring allowed (default: 0.15)")
    add("--junit", type=types.file, metavar="FILE", help="also write the verdicts for continuous integration")


def _merge(parsers) -> None:
    parser = flags.add_verb(parsers, "merge", "put the records of several runs into one folder", verbs.merge)
    parser.add_argument("folders", nargs="+", type=types.path, metavar="RUN", help="folders of runs, two or more")
    out = "folder to write, which must be new or empty"
    parser.add_argument("--out", required=True, type=types.path, metavar="DIR", help=out)


def _pack(parsers) -> None:
    parser = flags.add_verb(parsers, "pack", "pack the records of a run into one file, records.tar.xz", verbs.pack)
    flags.add_folder(parser, "folder of the run")


def _unpack(parsers) -> None:
    parser = flags.add_verb(parsers, "unpack", "write the packed records of a run as single files again", verbs.unpack)
    flags.add_folder(parser, "folder of the run")


def _gguf(parsers) -> None:
    summary = "write a pruned Llama or Mistral as a GGUF file, for llama.cpp"
    parser = flags.add_verb(parsers, "gguf", summary, verbs.gguf)
    parser.add_argument("folder", type=types.path, help="pruned checkpoint")
    like = "GGUF file of the unpruned model, with weights of 16 or 32 bits"
    parser.add_argument("--like", required=True, type=types.path, metavar="FILE", help=like)
    parser.add_argument("--out", required=True, type=types.file, metavar="FILE", help="file to write")
