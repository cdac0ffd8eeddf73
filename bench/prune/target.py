"""What is to be kept of a model, and what is refused before it is trained or scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from bench.prune.budget import AUTO, check_chooses, check_enough, units_to_keep
from bench.prune.options import PruneOptions
from bench.prune.uniform import check_expressible, even_units_to_keep
from bench.records.errors import InputError
from bench.suites.cells import heads_of
from methods.contract.method import RECOVER
from methods.heads import HeadMap
from methods.heads.surgery.rebuild import description, unpruned_neurons
from tasks.contract import Task


class Target(NamedTuple):
    """What is to be kept, as far as the model's configuration and the options say it."""

    heads: HeadMap
    keep: int | None  # units; None where the method is to choose their number
    neurons: Mapping[str, int]  # of each feed-forward layer before any pruning


def target_of(options: PruneOptions, task: Task) -> Target:
    """Look at the model of ``task``, and let go of it again. Raises InputError for what cannot be done."""
    model: Any = task.validate()
    heads = heads_of(task, model)
    keep = _units_to_keep(options, heads)
    if keep is not None:
        check_enough(options.keep, keep, heads)
        if options.uniform and options.method.options.get("parts") != "neurons":
            check_expressible(model, heads, keep)
    _check_biases(options, model, heads)
    try:
        described = description(model)
    except ValueError as error:  # a class that is not one of transformers, or that its configuration does not build
        raise InputError(f"a smaller model could not be saved: {error}") from error
    return Target(heads, keep, unpruned_neurons(described))


def _units_to_keep(options: PruneOptions, heads: HeadMap) -> int | None:
    if options.keep == AUTO:
        check_chooses(options.method)
        return None
    return even_units_to_keep(options.keep, heads) if options.uniform else units_to_keep(options.keep, len(heads))


def _check_biases(options: PruneOptions, model: nn.Module, heads: HeadMap) -> None:
    """Raise InputError if recovery would give an output projection a bias that a saved model has no place for."""
    if options.method.options.get(RECOVER.name) != "bias":
        return
    for site in heads.sites:
        if model.get_submodule(site.output).bias is None:
            raise InputError(
                f"--method {options.method.label} gives {site.output} a bias, which a checkpoint of "
                f"{type(model).__name__} has no place for: use --recover lstsq or scale"
            )
