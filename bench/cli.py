"""The command line: verbs and flags, and one line for a mistake in them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

DEFAULT_SUITE, DEFAULT_OUT = "mini", "runs/{suite}"
# Flags that need --task.
OWN = ("model", "data", "text", "label", "finetune", "limit", "harness_tasks", "dtype", "device_map", "unit")
ABOUT = "Compare methods for pruning attention heads of transformers."
DEVICE: dict[str, Any] = {
    "choices": ("auto", "cpu", "cuda"),
    "default": "auto",
    "help": "default: a GPU if there is one",
}
SHARE: dict[str, Any] = {
    "metavar": "SHARE",
    "help": "share of the most steps that the task trains its own model for, which methods that train take for each "
    "budget (default: the suite's; 1 for a task of one's own without --suite)",
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


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, with the nearest flag or choice."""

    def __init__(self, **settings):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

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
        elif message.endswith(("required: VERB", "required: WHAT")):
            known = next(action.choices for action in self._actions if action.choices)
            message = f"{message[-4:]} is missing: there is {', '.join(known)}"
        message = " ".join(message.removeprefix("argument ").split())
        print(f"headbench: error: {message}", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed command line, with the function to call as ``verb``. Exits with 2 on a mistake."""
    parser = _Parser(prog="headbench", description=ABOUT, epilog=EXAMPLES, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="name", metavar="VERB", required=True)

    run = _verb(verbs, "run", "run a suite, or your own model and data, and show the leaderboard", _run)
    _add_suite(run)
    _add_own(run, "your own model and data (instead of a suite's tasks)")
    run.add_argument(
        "--jobs", type=_positive, metavar="N", help="processes, one thread each (default: one a core; 1 on a GPU)"
    )
    run.add_argument("--retry-failed", action="store_true", help="run cells again that failed before")
    run.add_argument("--dry-run", action="store_true", help="show cells, what is there already, and the time expected")
    run.add_argument("--no-cache", action="store_true", help="train models for this run only")

    listing = _verb(verbs, "list", "list methods, tasks, suites, or the cells that the same flags would run", _list)
    listing.add_argument(
        "what", metavar="WHAT", choices=("methods", "tasks", "suites", "cells"), help="methods, tasks, suites or cells"
    )
    _add_suite(listing)
    _add_own(listing, "your own model and data (instead of a suite's tasks)")

    prune = _verb(verbs, "prune", "remove heads from a model and save the smaller checkpoint", _prune)
    prune.add_argument("--method", required=True, metavar="NAME:OPTION=VALUE", help="method that chooses the heads")
    prune.add_argument(
        "--keep",
        required=True,
        metavar="0.5|50%|N",
        help="share (0.5, 50%%) or whole number of units to keep; 1 is one unit",
    )
    prune.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write, not there yet")
    prune.add_argument("--seed", type=_whole, default=0, metavar="N", help="of training, sample and draws (default: 0)")
    prune.add_argument(
        "--calibration", type=_positive, default=128, metavar="N", help="training texts to score on (default: 128)"
    )
    prune.add_argument("--training", type=_share, default=1.0, **SHARE)
    prune.add_argument("--device", **DEVICE)
    _add_own(prune, "model and data")

    check = _verb(verbs, "check", "check that methods keep the rules that every method has to keep", _check)
    check.add_argument("methods", metavar="NAME[:OPTION=VALUE]|A,B|all", help="methods, with their options")
    check.add_argument("--only", type=_filled, metavar="A,B", help="only these checks")
    check.add_argument("--on", type=_filled, metavar="A,B", help="only on these tiny models, named in the first line")
    check.add_argument(
        "--baseline",
        type=Path,
        metavar="DIR",
        help="recorded run that has the cells of suite smoke (default: results; nothing is run with --only or --on)",
    )

    board = _verb(verbs, "leaderboard", "draw the leaderboard from records alone", _leaderboard)
    mini = DEFAULT_OUT.format(suite=DEFAULT_SUITE)
    board.add_argument("folder", nargs="?", type=Path, default=Path(mini), help=f"folder of a run (default: {mini})")
    board.add_argument(
        "--format", choices=("md", "csv", "html", "latex"), default="md", help="what to print (default: md)"
    )

    shown = _verb(verbs, "report", "make a folder of pages, figures and tables that opens from disk", _report)
    shown.add_argument("folder", nargs="?", type=Path, default=Path(mini), help=f"folder of a run (default: {mini})")
    shown.add_argument("--out", type=Path, metavar="FOLDER", help="where it goes (default: report, in that folder)")

    versus = _verb(
        verbs, "compare", "say whether one method keeps more than another, and whether the seeds can show it", _compare
    )
    versus.add_argument("a", metavar="A", help="method, as the leaderboard names it")
    versus.add_argument("b", metavar="B", help="another")
    versus.add_argument("folder", nargs="?", type=Path, default=Path(mini), help=f"folder of a run (default: {mini})")
    versus.add_argument(
        "--task", type=_filled, metavar="A,B", help="only these tasks, by adapter or data (default: all)"
    )
    versus.add_argument(
        "--level",
        type=_level,
        metavar="0.5|50%",
        help="at this share removed (default: area, the mean over all shares)",
    )
    versus.add_argument(
        "--alpha", type=_share, default=0.05, metavar="P", help="level of the tests and intervals (default: 0.05)"
    )
    watch = _verb(verbs, "regress", "say whether a change broke a method, by the records of a baseline", _regress)
    watch.add_argument(
        "folder", nargs="?", type=Path, default=Path(mini), help=f"folder of the run to judge (default: {mini})"
    )
    watch.add_argument("--baseline", required=True, type=Path, metavar="DIR", help="folder of the run to judge it by")
    watch.add_argument("--methods", type=_filled, metavar="A,B", help="only these, as the leaderboard names them")
    watch.add_argument(
        "--changed",
        type=_filled,
        metavar="A,B",
        help="methods that are new or meant to differ: only a loss beyond the margin, or a cost, fails them",
    )
    watch.add_argument(
        "--margin", type=_points, default=0.5, metavar="POINTS", help="area that may be lost (default: 0.5 points)"
    )
    watch.add_argument(
        "--slower", type=_share, default=0.15, metavar="SHARE", help="more scoring that is allowed (default: 0.15)"
    )
    watch.add_argument("--junit", type=Path, metavar="FILE", help="write the verdicts for continuous integration too")
    known, extra = parser.parse_known_args(arguments)
    if extra:
        known.parser.error(f"unrecognized arguments: {extra[0]}")
    return known


def _verb(verbs, name: str, summary: str, function: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    """A verb's own parser, which knows what is nearest to a mistyped flag of it."""
    parser = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False)
    parser.set_defaults(verb=function, parser=parser)
    return parser


def _add_suite(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--suite", metavar="NAME|FILE", help=f"built-in suite or TOML file (default: {DEFAULT_SUITE})")
    add("--methods", metavar="all|A,B:OPTION=VALUE", help="methods to run, with their options (default: the suite's)")
    add("--tasks", metavar="A,B", help="only these tasks of the suite")
    add("--seeds", metavar="N|A,B,C", help="number of seeds, or the seeds; 7, is seed 7 alone (default: the suite's)")
    add("--levels", metavar="all|A,B", help="shares of heads removed at which quality is measured, as 0.5 or 50%%")
    add("--out", type=Path, metavar="DIR", help=f"where records go (default: {DEFAULT_OUT})")
    add("--training", type=_share, **SHARE)
    add("--generate", action="store_true", help="time generation by language models too, and all speed at --levels")
    add("--device", **DEVICE)


def _add_own(parser: argparse.ArgumentParser, title: str) -> None:
    add = parser.add_argument_group(title).add_argument
    add("--task", type=_filled, metavar="NAME", help="task adapter (see `headbench list tasks`)")
    add("--model", type=_filled, metavar="DIR|ID", help="model (default: a small one, trained on the data)")
    add("--data", type=_filled, metavar="FILE|DIR|ID", help="JSONL, CSV, Parquet, a folder of them, or a hub id")
    add("--text", metavar="COL[,COL]", help="column of the text, or of both texts of a pair (default: the adapter's)")
    add("--label", type=_filled, metavar="COL", help="column of the label (default: label)")
    add("--finetune", action="store_true", help="train the model on the training split first")
    add("--limit", type=_positive, metavar="N", help="use at most N examples of each split")
    add("--harness-tasks", metavar="A,B|DIR", help="tasks of lm-eval, or a folder of task files, for --task harness")
    add("--dtype", metavar="float32|bfloat16|float16|auto", help="of a language model's weights (default: float32)")
    add("--device-map", metavar="auto", help="spread a language model over all GPUs (default: one device holds it)")
    add(
        "--unit",
        choices=("group", "query"),
        help="what can be removed of a model with fewer key/value than query heads: "
        "a key/value head with its query heads, or one query head of every key/value head of a layer (default: group)",
    )
    add("--mirror", type=_filled, metavar="DIR", help="folder with local copies of hub ids (or HEADBENCH_MIRROR)")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, not {text!r}")
    return number


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"expected a share over 0, at most 1, not {text!r}")
    return share


def _level(text: str) -> float:
    try:
        level = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        level = -1.0
    if not 0 <= level <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, or a percentage such as 50%, not {text!r}")
    return level


def _points(text: str) -> float:
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points <= 100:
        raise argparse.ArgumentTypeError(f"expected points of accuracy, from 0 to 100, not {text!r}")
    return points


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 0, not {text!r}")
    return int(text)


def _filled(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a value, not an empty one")
    return text


def _suite(options: argparse.Namespace):
    """The suite that the command line asks for. Raises InputError."""
    from dataclasses import replace

    from bench.errors import unknown
    from bench.plugins import quiet_libraries
    from bench.suite import check_task, parse_levels, parse_methods, parse_seeds
    from bench.suite_file import load_suite

    quiet_libraries()
    suite = load_suite(options.suite or DEFAULT_SUITE)
    if task := _own_task(options):
        training = suite.training if options.suite else 1.0  # the default suite's share is for its own tasks
        suite = replace(suite, name=f"own-{options.task}", tasks=(task,), training=training)
    mirror = _mirror(options)
    suite = replace(suite, tasks=tuple(replace(task, mirror=task.mirror or mirror) for task in suite.tasks))
    if options.tasks is not None:
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
        training=suite.training if options.training is None else options.training,
        generate=suite.generate or options.generate,
    )


def _own_task(options: argparse.Namespace):
    """The task that the flags of one's own task ask for, None where they ask for none. Raises InputError."""
    from bench.errors import InputError
    from bench.suite import LISTS, check_own, check_task, parse_list
    from tasks.contract import TaskSpec

    own = {name: value for name in OWN if (value := getattr(options, name)) not in (None, False)}
    if not options.task:
        if own:
            raise InputError(f"--{next(iter(own)).replace('_', '-')} is for a task of your own: add --task NAME")
        return None
    for name, part in LISTS.items():
        if name in own:
            own[name] = parse_list(own[name], name, part)
    return check_own(TaskSpec(check_task(options.task), mirror=_mirror(options), **own))


def _mirror(options: argparse.Namespace) -> str:
    return options.mirror or os.environ.get("HEADBENCH_MIRROR", "")


def _out(options: argparse.Namespace, suite) -> Path:
    return options.out or Path(DEFAULT_OUT.format(suite=suite.name))


def _device(options: argparse.Namespace) -> str:
    """``cpu`` or ``cuda``. Raises InputError where a GPU is asked for and there is none."""
    import torch

    from bench.errors import InputError

    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu"


def _cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(options: argparse.Namespace) -> int:
    from bench.run import RunOptions, run

    suite, device = _suite(options), _device(options)
    jobs = options.jobs or (1 if device == "cuda" else _cores())
    return run(
        suite, RunOptions(_out(options, suite), jobs, device, options.retry_failed, options.dry_run, options.no_cache)
    )


def _prune(options: argparse.Namespace) -> int:
    from bench.errors import InputError
    from bench.jobs import start_process
    from bench.prune import PruneOptions, prune
    from bench.suite import parse_methods
    from tasks.cache import Cache, default_root

    start_process()
    task = _own_task(options)
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
        device=_device(options),
    )
    return prune(wanted, Cache(default_root()))


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


def _check(options: argparse.Namespace) -> int:
    from bench.check import check
    from bench.plugins import load_plugins, quiet_libraries

    quiet_libraries()
    load_plugins()
    code = check(options.methods, options.only, options.on)
    if options.only or options.on:
        return code
    from bench.recorded import check_recorded

    return max(code, check_recorded(options.methods, options.baseline))


def _leaderboard(options: argparse.Namespace) -> int:
    from bench import leaderboard

    if options.format in ("html", "latex"):
        from bench.plugins import load_plugins
        from bench.report.write import alone

        load_plugins()
        text = alone(options.folder, options.format)
    else:
        text = leaderboard.show(options.folder, options.format)
    leaderboard.write(options.folder)
    print(text, end="")
    return 0


def _report(options: argparse.Namespace) -> int:
    from bench.plugins import load_plugins
    from bench.report.write import report

    load_plugins()  # a method's page shows its definition
    print(report(options.folder, options.out or options.folder / "report"))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from bench.answer import text
    from bench.compare import compare

    tasks = [name.strip() for name in options.task.split(",")] if options.task else []
    print(text(compare(options.folder, options.a, options.b, tasks, options.level, options.alpha)))
    return 0


def _regress(options: argparse.Namespace) -> int:
    from bench.regress import regress
    from bench.regression.verdict import Limits

    methods, changed = (_labels(text) for text in (options.methods, options.changed))
    limits = Limits(points=options.margin, slower=options.slower)
    return regress(options.baseline, options.folder, methods, changed, limits, options.junit)


def _labels(text: str | None) -> list[str]:
    """Methods by their labels, ``a,b:option=value,option=value``: a part without a name belongs to the one before."""
    labels: list[str] = []
    for part in (part.strip() for part in (text or "").split(",")):
        if labels and "=" in part and ":" not in part:
            labels[-1] += f",{part}"
        elif part:
            labels.append(part)
    return labels
