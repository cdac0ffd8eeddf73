"""What the flags ask for: a suite or your own task, on which device, and where records go. Imports torch late."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bench.records.errors import InputError, unknown
from bench.suites.validate import task_spec, validated
from tasks.data.labels import is_unicode
from tasks.paths import at_home
from tasks.request import TaskSpec, flag_of

DEFAULT_SUITE, DEFAULT_OUT = "mini", "runs/{suite}"


def suite_of(options: argparse.Namespace):
    """The suite that the command line asks for. Raises InputError."""
    from bench.suites.files import load_suite
    from bench.suites.plugins import quiet_libraries
    from bench.suites.suite import Suite, check_task

    quiet_libraries()
    suite = load_suite(at_home(options.suite or DEFAULT_SUITE))
    values = dict(suite)
    if task := own_task(options):
        training = suite.training if options.suite else 1.0  # the default suite's share is for its own tasks
        values |= {"name": f"own-{options.task}", "tasks": (task,), "training": training}
    mirror = _mirror(options)
    tasks = [
        task.model_copy(update={"mirror": mirror if options.mirror else task.mirror or mirror})
        for task in values["tasks"]
    ]
    if options.trust_task_code and not any(task.task == "harness" for task in tasks):
        raise InputError(f"--trust-task-code is for language models; {values['name']} has none")
    if options.trust_task_code and not options.task:
        tasks = [task.model_copy(update={"trust_task_code": bool(task.harness_tasks)}) for task in tasks]
    if options.tasks is not None:
        wanted = [check_task(name.strip()) for name in options.tasks.split(",")]
        for name in wanted:
            if name not in (known := {task.task for task in tasks}):
                raise unknown(f"task of suite {values['name']}", name, known)
        tasks = [task for task in tasks if task.task in wanted]
    values |= {"tasks": tuple(tasks), "generate": suite.generate or options.generate}
    flags = ("methods", "seeds", "levels", "calibration_from", "training")
    values |= {name: value for name in flags if (value := getattr(options, name)) is not None}
    return validated(Suite, values, _flag)


def own_task(options: argparse.Namespace) -> TaskSpec | None:
    """Your own task that the flags ask for; None if they do not. Raises InputError."""
    given = {name: value for name in TaskSpec.model_fields if (value := getattr(options, name)) not in (None, False)}
    if not options.task:
        if others := given.keys() - {"mirror", "trust_task_code"}:
            first = next(name for name in given if name in others)
            raise InputError(f"{flag_of(first)} is for a task of your own: add --task NAME")
        return None
    from bench.suites.suite import check_task

    check_task(options.task)
    return task_spec(given | ({"mirror": mirror} if (mirror := _mirror(options)) else {}), _flag)


def _flag(name: str, value: object) -> str:
    return f"{flag_of(name)} {value!r}"


def _mirror(options: argparse.Namespace) -> str:
    """The folder with copies of hub ids, or "".

    Raises InputError if a flag names a folder that does not exist, and for a name that no record can hold.
    """
    mirror = at_home(options.mirror or os.environ.get("HEADBENCH_MIRROR", ""))
    if not is_unicode(mirror):
        raise InputError(f"HEADBENCH_MIRROR: expected a name in UTF-8, not {mirror!r}: rename the folder")
    if options.mirror and not Path(mirror).is_dir():
        raise InputError(f"--mirror {options.mirror}: no such folder")
    return mirror


def out_of(options: argparse.Namespace, suite) -> Path:
    """Where records go. Raises InputError where a file is in the way."""
    out = options.out or Path(DEFAULT_OUT.format(suite=suite.name))
    existing = next((place for place in (out, *out.parents) if place.exists()), Path())
    if not existing.is_dir():
        raise InputError(f"--out {out}: cannot write there: {existing} is a file, not a folder")
    return out


def cluster_of(options: argparse.Namespace):
    """The cluster to run on; None for processes on this machine. Raises InputError for flags that need the other."""
    from bench.run.options import ClusterOptions

    flags = ("address", "cpus_per_cell", "gpus_per_cell")
    given = [name for name in flags if getattr(options, name) is not None]
    if options.engine != "ray":
        if given:
            raise InputError(f"{flag_of(given[0])} is for a cluster: add --engine ray")
        return None
    if options.no_cache and options.address:
        raise InputError("--no-cache is for this machine: on a cluster, set HEADBENCH_CACHE on its nodes instead")
    gpus = options.gpus_per_cell
    if gpus is None:
        gpus = 1.0 if options.device == "cuda" else 0.0
    if bool(gpus) != (options.device == "cuda") and options.device != "auto":
        raise InputError(f"--device {options.device} and --gpus-per-cell {gpus:g} do not go together")
    return ClusterOptions(options.address or "", options.cpus_per_cell or 1, gpus)


def device_of(options: argparse.Namespace) -> str:
    """``cpu`` or ``cuda``. Raises InputError where a GPU is asked for and there is none.

    On a cluster the GPUs are those of its nodes, and a cell has one if it is given one.
    """
    cluster = cluster_of(options) if hasattr(options, "engine") else None
    if cluster and (cluster.address or not cluster.gpus):
        return "cuda" if cluster.gpus else "cpu"
    import torch

    here = torch.cuda.is_available()
    if cluster and not here:  # a cluster that is started on this machine alone
        raise InputError(f"--engine ray with {cluster.gpus:g} GPU for a cell: no CUDA device is available here")
    if options.device == "cuda" and not here:
        raise InputError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if options.device != "cpu" and here else "cpu"
