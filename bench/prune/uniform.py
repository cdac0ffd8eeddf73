"""The same number of heads in every attention module, so that the configuration alone describes the smaller model."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedModel

from bench.prune.budget import units_to_keep
from bench.records.errors import InputError
from bench.suites.parse import MethodSpec
from methods.contract.choice import Choice
from methods.heads import HeadMap
from methods.heads.surgery.rebuild import uniform_config


def with_allocation(method: MethodSpec, allocation: str) -> MethodSpec:
    """``method`` with its units removed equally from every layer (``layer``) or wherever they are (``global``).

    Raises InputError for a method that has no such option.
    """
    if "allocation" not in method.options:
        raise InputError(
            f"--uniform: {method.name} itself decides how many heads each layer keeps; use a method with the option "
            "allocation, as all scorers have it (`headbench list methods`)"
        )
    return replace(method, options={**method.options, "allocation": allocation})


def even_units_to_keep(text: str, heads: HeadMap) -> int:
    """The number of units that ``--keep`` asks for, a multiple of the number of attention modules. Raises InputError.

    A share is taken of the units of one module.
    """
    units, modules = heads.shape[0], len(heads.shape)
    if set(heads.shape) != {units}:
        raise InputError(
            f"--uniform: attention modules of this model have from {min(heads.shape)} to {max(heads.shape)} units: "
            "leave --uniform out"
        )
    kept = units_to_keep(text, len(heads))
    if "." in text or text.endswith("%"):
        return units_to_keep(text, units) * modules
    if kept % modules:
        below = kept // modules * modules
        near = [each for each in (below, below + modules) if each]
        raise InputError(
            f"--keep {text}: with --uniform, the number of units must be a multiple of the {modules} attention "
            f"modules, such as {' or '.join(map(str, near))}"
        )
    return kept


def check_expressible(model: nn.Module, heads: HeadMap, keep: int) -> None:
    """Raise InputError unless a configuration of ``model`` builds it with ``keep`` units, equally many in each module.

    heads: with equally many units in every module. Needs no weights.
    """
    modules, units = len(heads.shape), heads.shape[0]
    wanted = keep // modules
    if _expressible(model, heads, wanted):
        return
    possible = [str(each) for each in range(1, units) if _expressible(model, heads, each)]
    name, site = type(model).__name__, heads.sites[0]
    if possible:
        raise InputError(
            f"--uniform: the configuration of {name} cannot say {wanted} units in every attention module; of {units} "
            f"it can say {', '.join(possible)}"
        )
    lacks = f"a smaller number of heads of width {site.head_dim}"
    if not _expressible(model, heads, units):  # not even as it is
        lacks = "the numbers of heads and neurons that its layers have already"
    raise InputError(
        f"--uniform: the configuration of {name} has no place for {lacks}, so from_pretrained could not build the "
        "model: leave --uniform out; methods.heads.load_pruned loads the result, and --export onnx makes a file for "
        "ONNX Runtime"
    )


def _expressible(model: nn.Module, heads: HeadMap, units: int) -> bool:
    """Whether a configuration builds ``model`` with the first ``units`` units of each attention module."""
    mask = torch.cat([torch.arange(each) < units for each in heads.shape])
    return uniform_config(cast(PreTrainedModel, Choice(model, heads, mask).smaller())) is not None
