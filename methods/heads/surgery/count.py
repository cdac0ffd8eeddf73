"""Counting a model's parameters by module."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Number of parameters by module.

    "model" is everything and "base" the model without its task head (``model.base_model``); then follow the children of
    the base (embeddings, encoder, pooler, ...) and those of the task head (classifier, lm_head, ...) that have
    parameters. A shared parameter counts once, in the first module that has it, the base before the task head.
    Works on the meta device.
    """
    return _sum_by_module(model, lambda parameter: parameter.numel())


def count_megabytes(model: nn.Module) -> dict[str, float]:
    """Size of the parameters in MB of 2**20 bytes, in their present dtype, by module as in ``count_parameters``."""
    by_module = _sum_by_module(model, lambda parameter: parameter.numel() * parameter.element_size())
    return {name: size / 2**20 for name, size in by_module.items()}


def _sum_by_module(model: nn.Module, size: Callable[[nn.Parameter], int]) -> dict[str, int]:
    base = getattr(model, "base_model", model)
    counted: set[int] = set()

    def of(module: nn.Module) -> int:
        fresh = [parameter for parameter in module.parameters() if id(parameter) not in counted]
        counted.update(id(parameter) for parameter in fresh)
        return sum(size(parameter) for parameter in fresh)

    sizes = {"model": sum(map(size, model.parameters())), "base": sum(map(size, base.parameters()))}
    task_head = [] if base is model else [child for child in model.named_children() if child[1] is not base]
    for name, child in [*base.named_children(), *task_head]:
        if total := of(child):
            sizes[f"head.{name}" if name in sizes else name] = total
    return sizes
