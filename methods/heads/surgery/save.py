"""Saving a smaller model and loading it again, also if its layers differ in shape."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from methods.heads.surgery.rebuild import (
    at_rest,
    description,
    named_tensors,
    own_config,
    skeleton,
    uniform_config,
)
from methods.heads.surgery.remove import replace_parameters

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

FORMAT = 1
WEIGHTS, BUFFERS, PRUNING = "model.safetensors", "buffers.safetensors", "pruning.json"
CONFIG = "config.json"
GENERATION = "generation_config.json"


def save_pruned(model: PreTrainedModel, path: str | Path) -> bool:
    """Write ``model`` into a new folder: config.json, weights, buffers, and pruning.json with what was kept.

    If all layers have the same shape and the architecture's configuration can express it, the folder also loads with
    ``from_pretrained``, otherwise only with ``load_pruned``. Returns whether it does. The folder is written completely
    or not at all.

    Raises FileExistsError if ``path`` exists, ValueError if the model cannot be rebuilt from its configuration.
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    pruning = {
        "format": FORMAT,
        **description(model),
        "generation": _plain(model.generation_config) if model.can_generate() else None,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        folder = Path(temporary) / path.name
        folder.mkdir()
        uniform = uniform_config(model)
        config = uniform or own_config(model)
        config.architectures, config.dtype = [type(model).__name__], model.dtype
        config.save_pretrained(folder)
        if model.can_generate():  # for from_pretrained; written as it is, which save_pretrained may refuse
            model.generation_config.to_json_file(folder / GENERATION)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in at_rest(model).items()}
        lasting = tensors.keys() & model.state_dict().keys()
        save_file({name: tensors[name] for name in lasting}, folder / WEIGHTS, metadata={"format": "pt"})
        save_file({name: tensors[name] for name in tensors.keys() - lasting}, folder / BUFFERS)
        (folder / PRUNING).write_text(json.dumps(pruning, indent=1, sort_keys=True))
        for name in (WEIGHTS, BUFFERS):  # which safetensors lets nobody else read
            shutil.copymode(folder / PRUNING, folder / name)
        folder.rename(path)
    return uniform is not None


def load_pruned(path: str | Path) -> PreTrainedModel:
    """The model that ``save_pruned`` wrote, in evaluation mode on the CPU.

    Its classes have the names that config.json gives them, which may have been edited.

    Raises ValueError for a folder that ``save_pruned`` did not write, or that is damaged.
    """
    from transformers import GenerationConfig

    path = Path(path)
    try:
        pruning = json.loads((path / PRUNING).read_text())
        if pruning["format"] != FORMAT:
            raise ValueError(f"format {pruning['format']}, expected {FORMAT}")
        tensors = load_file(path / WEIGHTS) | load_file(path / BUFFERS)
        model = skeleton(pruning, "cpu")
        _fill(model, tensors)
        _name_classes(model, path / CONFIG)
        if pruning["generation"] is not None:
            model.generation_config = GenerationConfig.from_dict(pruning["generation"])
    except Exception as error:  # of any kind: a configuration that is damaged can fail anywhere in a model's code
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is not a complete pruned model: {type(error).__name__}: {reason}") from error
    return model.eval()


def _name_classes(model: PreTrainedModel, path: Path) -> None:
    """Give the classes of ``model`` the names in the configuration at ``path``, if it names any."""
    found = json.loads(path.read_text()).get("id2label")
    if not found:
        return
    names, classes = {int(number): name for number, name in found.items()}, model.config.num_labels or 0
    if sorted(names) != list(range(classes)):
        raise ValueError(f"{path.name} names classes {sorted(names)}, the model has {classes}")
    model.config.id2label, model.config.label2id = names, {name: number for number, name in names.items()}


def _plain(settings: GenerationConfig) -> dict[str, Any]:
    """All settings, with the biases of sequences of tokens as a list: JSON has no keys that are sequences."""
    found = settings.to_dict()
    if isinstance(biases := found.get("sequence_bias"), dict):
        found["sequence_bias"] = [[list(tokens), bias] for tokens, bias in biases.items()]
    return found


def _fill(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Set a model's parameters and buffers to the saved tensors, in the saved dtype."""
    named = named_tensors(model)
    if odd := sorted(named.keys() ^ tensors.keys()):
        raise ValueError(f"{odd[0]} is in only one of the model and the file")
    for name, tensor in tensors.items():
        if tensor.shape != named[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the model {tuple(named[name].shape)}")
        if not named[name].is_meta:
            named[name].data = tensor
    filled = {id(each): nn.Parameter(tensors[name], each.requires_grad) for name, each in model.named_parameters()}
    replace_parameters(model, filled, in_place=True)
