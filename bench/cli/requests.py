"""What a command line asks to be run: a suite or a task of one's own, on which device, and where it goes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

DEFAULT_SUITE, DEFAULT_OUT = "mini", "runs/{suite}"
# Flags that need --task.
OWN = ("model", "data", "text", "label", "finetune", "limit", "harness_tasks", "dtype", "device_map", "unit")


def suite_of(options: argparse.Namespace):
    """The suite that the command line asks for. Raises InputError."""
    from dataclasses import replace

    from bench.records.errors import unknown
    from bench.suites.files import load_suite
    from bench.suites.parse import check_task, parse_levels, parse_methods, parse_seeds
    from bench.suites.plugins import quiet_libraries

    quiet_libraries()
    suite = load_suite(options.suite or DEFAULT_SUITE)
    if task := own_task(options):
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


def own_task(options: argparse.Namespace):
    """The task that the flags of one's own task ask for, None where they ask for none. Raises InputError."""
    from bench.records.errors import InputError
    from bench.suites.parse import LISTS, check_own, check_task, parse_list
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
    """The folder with copies of hub ids, "" for none. Raises InputError where a flag names one that is not there."""
    from bench.records.errors import InputError

    if options.mirror and not Path(options.mirror).is_dir():
        raise InputError(f"--mirror {options.mirror}: no such folder")
    return options.mirror or os.environ.get("HEADBENCH_MIRROR", "")


def out_of(options: argparse.Namespace, suite) -> Path:
    """Where records go. Raises InputError where a file is in the way."""
    from bench.records.errors import InputError

    out = options.out or Path(DEFAULT_OUT.format(suite=suite.name))
    there = next((place for place in (out, *out.parents) if place.exists()), Path())
    if not there.is_dir():
        raise InputError(f"--out {out}: cannot write there: {there} is a file, and a folder is wanted")
    return out


def device_of(options: argparse.Namespace) -> str:
    """``cpu`` or ``cuda``. Raises InputError where a GPU is asked for and there is none."""
    import torch

    from bench.records.errors import InputError

    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if options.device != "cpu" and torch.cuda.is_available() else "cpu"
