"""Saving a smaller model and loading it again, also if its layers differ in shape.

What builds models takes two seconds to import, so that is done where one is built.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file, save_file
from torch import nn

from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.mlps import find_mlps
from methods.heads.finding.site import Site
from methods.heads.finding.sites import find_sites
from methods.heads.surgery.head_counts import kept_heads
from methods.heads.surgery.neurons import remove_neurons
from methods.heads.surgery.remove import keep_heads, replace_parameters

if TYPE_CHECKING:
    from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel

FORMAT = 1
WEIGHTS, BUFFERS, PRUNING = "model.safetensors", "buffers.safetensors", "pruning.json"
CONFIG = "config.json"
GENERATION = "generation_config.json"
ORIGINAL = "original_inv_freq"  # end of a name: the frequencies of positions of a model that has seen no text


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
        "class": type(model).__name__,
        "config": _without_places(model.config.to_dict()),
        "heads": {site.name: kept_heads(model.get_submodule(site.name), site) for site in find_sites(model)},
        "neurons": _widths(model),
        "generation": _plain(model.generation_config) if model.can_generate() else None,
    }
    rebuilt = _shapes(_skeleton(pruning, "meta"))
    if odd := sorted(name for name, _ in rebuilt.items() ^ _shapes(model).items()):
        raise ValueError(f"{type(model).__name__} cannot be rebuilt from its configuration: {odd[0]} would differ")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        folder = Path(temporary) / path.name
        folder.mkdir()
        uniform = uniform_config(model)
        config = uniform or copy.deepcopy(model.config)
        config.architectures, config.dtype = [type(model).__name__], model.dtype
        config.save_pretrained(folder)
        if model.can_generate():  # for from_pretrained; written as it is, which save_pretrained may refuse
            model.generation_config.to_json_file(folder / GENERATION)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _at_rest(model).items()}
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
        model = _skeleton(pruning, "cpu")
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


def _without_places(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the folders that it and its parts were loaded from."""
    return {
        name: _without_places(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name != "_name_or_path"
    }


def _plain(settings: GenerationConfig) -> dict[str, Any]:
    """All settings, with the biases of sequences of tokens as a list: JSON has no keys that are sequences."""
    found = settings.to_dict()
    if isinstance(biases := found.get("sequence_bias"), dict):
        found["sequence_bias"] = [[list(tokens), bias] for tokens, bias in biases.items()]
    return found


def _widths(model: nn.Module) -> dict[str, int]:
    """Number of neurons left in each feed-forward layer; nothing depends on which they were."""
    try:
        return {mlp.name: mlp.width for mlp in find_mlps(model)}
    except UnsupportedArchitecture:
        return {}


def _named(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, shared ones once; also buffers outside of the state dict, for their dtype."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _at_rest(model: nn.Module) -> dict[str, torch.Tensor]:
    """As ``_named``, with the frequencies of positions from before any text: dynamic ones change with its length."""
    named = _named(model)
    for name, buffer in model.named_buffers(remove_duplicate=False):
        if name.endswith(ORIGINAL):
            named |= {name: buffer, f"{name.removesuffix(ORIGINAL)}inv_freq": buffer.clone()}
    return named


def _skeleton(pruning: dict[str, Any], device: str) -> PreTrainedModel:
    """A model with the saved shapes; its parameters are on the meta device, without values."""
    import transformers
    from transformers import AutoConfig, PreTrainedModel
    from transformers.initialization import no_init_weights

    model_class = getattr(transformers, pruning["class"], None)
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        raise ValueError(f"{pruning['class']} is not a model class of transformers")
    options = dict(pruning["config"])
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    with torch.random.fork_rng(devices=[]), torch.device(device), no_init_weights():  # so that weights take no memory
        model = model_class(config)
        model.tie_weights()
    empty = {id(each): nn.Parameter(each.to("meta"), each.requires_grad) for each in model.parameters()}
    replace_parameters(model, empty, in_place=True)
    sites = find_sites(model)
    kept = {site.name: _checked(site, pruning["heads"][site.name]) for site in sites}
    keep_heads(model, sites, kept, in_place=True)
    if pruning["neurons"]:
        remove_neurons(model, {name: range(width) for name, width in pruning["neurons"].items()}, in_place=True)
    return model


def _checked(site: Site, heads: list[int]) -> list[int]:
    if heads != sorted(set(heads)) or not set(heads) <= set(range(site.num_heads)):
        raise ValueError(f"{site.name} cannot have heads {heads}")
    groups = [head // site.queries_per_group for head in heads]
    some = range(site.num_key_value_heads) if site.stores else groups
    if len({groups.count(group) for group in some}) > 1:
        raise ValueError(f"{site.name} has unequal groups with heads {heads}")
    return heads


def _fill(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Set a model's parameters and buffers to the saved tensors, in the saved dtype."""
    named = _named(model)
    if odd := sorted(named.keys() ^ tensors.keys()):
        raise ValueError(f"{odd[0]} is in only one of the model and the file")
    for name, tensor in tensors.items():
        if tensor.shape != named[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the model {tuple(named[name].shape)}")
        if not named[name].is_meta:
            named[name].data = tensor
    filled = {id(each): nn.Parameter(tensors[name], each.requires_grad) for name, each in model.named_parameters()}
    replace_parameters(model, filled, in_place=True)


def uniform_config(model: PreTrainedModel) -> PretrainedConfig | None:
    """A configuration that builds the smaller model; None if the architecture has none."""
    from transformers import AutoConfig

    sites, widths = find_sites(model), set(_widths(model).values())
    shapes = {(site.num_heads, site.num_key_value_heads, site.head_dim) for site in sites}
    if len(shapes) != 1 or 0 in (sites[0].num_heads, *widths):
        return None
    num_heads, num_key_value_heads, _ = shapes.pop()
    wanted = {"num_attention_heads": num_heads, "num_key_value_heads": num_key_value_heads}
    if len(widths) == 1:  # else there are experts, or layers that differ: the configuration may say how, as it is
        wanted["intermediate_size"] = widths.pop()
    options = model.config.to_dict()
    options |= {name: value for name, value in wanted.items() if name in options}
    computed = isinstance(getattr(type(model.config), "head_dim", None), property)
    if not computed and not sites[0].layout.widths:  # else it may stand for a part of the head
        options["head_dim"] = sites[0].widths["key"]
    try:
        config = AutoConfig.for_model(options.pop("model_type"), **options)
        with torch.device("meta"):
            rebuilt = type(model)(cast(Any, config))
    except (ValueError, TypeError, StrictDataclassError):
        return None  # such numbers are not allowed (a width that is not a multiple of the heads, for example)
    return config if _shapes(rebuilt) == _shapes(model) else None


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in _at_rest(model).items()}
