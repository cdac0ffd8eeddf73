"""The page ``docs/methods.md``, from the registry: ``python -m bench.cli.methods_page > docs/methods.md``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from bench.cli.listing import SCHEDULE, kind_of, meaning, shows
from bench.suites.plugins import load_plugins
from methods import METHODS, Method
from methods.contract.method import RECOVER
from methods.contract.options import Option, plain

INTRO = """\
# Methods

This page is generated from the registry: `python -m bench.cli.methods_page > docs/methods.md`.
`headbench list methods` prints the same in the terminal.

A method has one of three shapes:

- A **scorer** gives every unit of the current model an importance. The runner turns importances into a removal order,
  least important first.
- A **selector** gets a budget and returns which units to keep.
- A **joint** method gets all budgets and trains gates or weights for each; this cost is recorded as training. A
  training-free one makes new weights from the calibration set; this cost is recorded as scoring.

Options follow the name: `--methods ae:variant=A` or `--methods michel:layer_norm=false,recompute=4`. Each run measures
what a method costs in forward and backward passes; see the columns of the
[leaderboard](../results/mini/leaderboard.md).

How to read comparisons:

- The leaderboard has one table for methods that leave the weights alone, one for methods that **recover** weights
  without training, and one for methods that **train**. It compares each method with [controls of its
  kind](protocol.md#kinds-and-controls), such as `michel:recover=lstsq` with `random:recover=lstsq`.
- An **inverse** method removes first what its score ranks as most important. If the score is useful, accuracy
  collapses.
- **Joint methods** train on the training split, for a share of the steps in which the task trains its own model:
  `--training 0.1` in the default suite, 1 for a task of your own. They start from the trained model, so in total they
  train longer than the others. With `start=pretrained` they start from the model as it was before its own training,
  which their training then replaces. Compare them with `michel-retrained` and `random-retrained`, which choose the
  heads first and then train for as many steps on the same batches. `dsp-pipelined` changes no weights: compare it with
  the scorers, but note that it sees the training split and not only the calibration set. [Joint
  schedules](joint-schedules.md) is a study, on validation data, of how to cool gates in short trainings.
- **Methods that remove neurons** (`amp`, `amp-mlp`, `amp-recovered`, `kwon:parts=both`, `random-both`) are compared
  with the others by the share of parameters removed, not of heads. The control of `amp` is `random-both`, that of
  `amp-mlp` `random:parts=neurons,allocation=layer`.
- Where a **paper and its published code** differ, the default follows the paper, and an option follows the code.
"""


def methods_page() -> str:
    """The whole page as Markdown."""
    load_plugins()
    blocks = [INTRO, "## All names\n", _names(), "\n## Options of every scorer\n", _shared_options()]
    blocks += ["\n## Option of every scorer and selector\n", _options([(RECOVER, RECOVER.default)])]
    for method in _built_in():
        if method.name == method.base:
            blocks += [f"\n## {method.name}\n", _section(method)]
    return "\n".join(blocks) + "\n"


def _built_in() -> list[Method]:
    """The methods that come with headbench, by name."""
    return [method for _, method in sorted(METHODS.items()) if method.function.__module__.startswith("methods.")]


def _names() -> str:
    rows = []
    for method in _built_in():
        what = _cell(method.summary) if method.name == method.base else _short_for(method)
        rows.append(f"[`{method.name}`](#{method.base}) | {method.role} | {_cell(method.source)} | {what}")
    return _table("name | shape | source | what it computes", rows)


def _section(method: Method) -> str:
    parts = [*textwrap.wrap(_cell(method.summary), 118), "", f"Shape: {method.shape}. Source: {method.source}."]
    values = method.configure({})
    own = [option for option in (*method.options.values(), RECOVER) if shows(method, option)]
    if own:
        parts += ["", _options((option, values[option.name]) for option in own)]
    variants = [other for other in _built_in() if other.base == method.name != other.name]
    parts += [""] * bool(variants) + [f"- `{other.name}`: {_short_for(other)}" for other in variants]
    return "\n".join(parts)


def _short_for(variant: Method) -> str:
    """The main name and the options that a variant stands for."""
    base = METHODS[variant.base]
    return f"short for `{base.label(variant.configure({}))}`"


def _shared_options() -> str:
    scorer = next(method for method in METHODS.values() if method.shape == "scorer")
    return _options((scorer.options[name], scorer.options[name].default) for name in SCHEDULE)


def _options(options: Iterable[tuple[Option, object]]) -> str:
    return _table(
        "option | type | default | meaning",
        [
            " | ".join(
                [
                    f"`{option.name}`",
                    _cell(kind_of(option.type)),
                    f"`{plain(value)}`",
                    _cell(meaning(option)),
                ]
            )
            for option, value in options
        ],
    )


def _table(heading: str, rows: Iterable[str]) -> str:
    rule = " | ".join("---" for _ in heading.split(" | "))
    return "\n".join(f"| {row} |" for row in (heading, rule, *rows))


def _cell(text: str) -> str:
    """``text`` in a cell of a Markdown table; a formula in it stays as it is."""
    for character in "|*_<":
        text = text.replace(character, f"\\{character}")
    return text


if __name__ == "__main__":
    print(methods_page(), end="")
