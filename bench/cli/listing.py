"""The verb ``list``: methods, tasks, suites and cells, as text."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Literal, get_args, get_origin

from bench.analysis.naming import count
from bench.records.errors import InputError
from bench.records.storage.store import Store
from bench.run.states import states_of
from bench.suites.cells import plan
from bench.suites.files import built_in_suites, load_suite
from bench.suites.needs import look_for, needs_in_words
from bench.suites.plugins import task_plugin_fault
from bench.suites.suite import Suite
from methods import METHODS, Method
from methods.contract.method import RECOVER
from methods.contract.options import Option, plain
from methods.contract.schedule import Schedule
from tasks.contract import TASKS
from tasks.errors import TaskError

SCHEDULE = [field.name for field in dataclasses.fields(Schedule)]


def methods() -> str:
    """Every method with its shape and source, and the type, default and meaning of its options."""
    blocks = []
    for name, method in sorted(METHODS.items()):
        defaults = method.configure({})
        source = "" if method.control and method.source == "control" else f"; {method.source}"
        lines = [f"{name} ({method.role}{source})"]
        if name != method.base:
            lines += [f"    short for {METHODS[method.base].label(defaults)}"]
        else:
            shown = [o for o in (*method.options.values(), RECOVER) if shows(method, o)]
            lines += [*_wrap(method.summary), *(_option(option, defaults[option.name]) for option in shown)]
        blocks.append("\n".join(lines))
    schedule = next(method.options for method in METHODS.values() if method.shape == "scorer")
    blocks.append(
        "\n".join(["every scorer also takes", *(_option(schedule[n], schedule[n].default) for n in SCHEDULE)])
    )
    blocks.append("\n".join(["every scorer and selector also takes", _option(RECOVER, RECOVER.default)]))
    return "\n\n".join(blocks)


def tasks() -> str:
    """Every task adapter: what it expects of data, and what it has built in. Warns of adapters that cannot say."""
    blocks = []
    for name, adapter in sorted(TASKS.items()):
        try:
            with task_plugin_fault(name, adapter.__module__):
                about = adapter.about()
        except (InputError, TaskError) as error:
            print(f"headbench: warning: {error}", file=sys.stderr)
            continue
        description = _wrap((inspect.getdoc(adapter) or "").replace("\n", " "))
        blocks.append("\n".join([name, *description, *(f"    {line}" for line in about)]))
    return "\n\n".join(blocks)


def suites() -> str:
    """Every built-in suite, and what it needs that does not come with headbench."""
    lines = []
    for name in built_in_suites():
        suite = load_suite(name)
        levels = f"{len(suite.levels)} levels" if suite.levels else "all levels"
        adapters = Counter(task.task for task in suite.tasks)
        tasks = ", ".join(f"{number} x {adapter}" if number > 1 else adapter for adapter, number in adapters.items())
        lines.append(
            f"{name}: {tasks}; {count(len(suite.methods), 'method')}, {count(len(suite.seeds), 'seed')}, {levels}"
        )
        lines += textwrap.wrap(
            f"needs {needs_in_words(suite)}",
            100,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def cells(suite: Suite, out: Path, device: str) -> str:
    """Every cell of ``suite`` with its key and the state of its record in ``out``."""
    look_for(suite)
    store, planned = Store(out), plan(suite, device)
    paths = [path for cell in planned if store.has(path := store.path(cell.name))]
    states = states_of(store, planned, known=store.read_all(paths))
    return "\n".join(f"{state.name:8} {cell.key[:12]} {cell.name}" for cell, state in states.items())


def shows(method: Method, option: Option) -> bool:
    """Whether the entry of ``method`` lists ``option``: if it is its own, or a shared one with another default."""
    own = option.name in method.options and option.name not in SCHEDULE
    return own or option.name in method.presets


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")


def _option(option: Option, value: object) -> str:
    return f"    {option.name}={plain(value)}  [{kind_of(option.type)}] {meaning(option)}"


def meaning(option: Option) -> str:
    """What an option is for, with the least and the most that it may be."""
    bounds = [("at least", option.lowest), ("at most", option.highest)]
    said = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
    return option.help + (f" ({', '.join(said)})" if said else "")


def kind_of(kind: type) -> str:
    """The type of an option, as ``int`` or ``A|B|C``."""
    return "|".join(map(plain, get_args(kind))) if get_origin(kind) is Literal else kind.__name__
