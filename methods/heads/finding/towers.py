"""The parts of a composite model, such as a language model that is also given images."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from methods.heads.finding.text_config import text_config


def parts_of(model: nn.Module, modules: Mapping[str, nn.Module]) -> dict[str, list[str]]:
    """Paths of all modules by the part of the model that they are in, in the order of ``modules``.

    The part "" is what must be understood: the text tower of a composite model and what holds it, or all of another
    model. Other parts (a vision tower, a projector) are named by their path: the highest that holds no text tower.
    """
    towers = _text_towers(model, modules)
    parts: dict[str, list[str]] = {"": []}
    for path in modules:
        parts.setdefault(_part(path, towers), []).append(path)
    return parts


def _text_towers(model: nn.Module, modules: Mapping[str, nn.Module]) -> list[str]:
    """Paths of the models with the configuration for texts; none where that is the model's own, or not one alone."""
    config: Any = getattr(model, "config", None)
    text = text_config(config)
    if text is None or type(text) is type(config):
        return []
    from transformers import PreTrainedModel  # takes two seconds

    models = {path: each for path, each in modules.items() if isinstance(each, PreTrainedModel)}
    return [path for path, each in models.items() if type(each.config) is type(text)]


def _part(path: str, towers: Collection[str]) -> str:
    names = path.split(".")
    for end in range(1, len(names) + 1):
        start = ".".join(names[:end])
        if not towers or start in towers:
            return ""
        if not any(tower.startswith(f"{start}.") for tower in towers):
            return start if path else ""
    return ""
