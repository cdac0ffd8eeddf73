"""Models from a folder or the hub: safetensors only, no remote code, and no head that was never trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tasks.data.encode import padding_id
from tasks.data.source import is_path, resolve
from tasks.data.splits import place_of
from tasks.errors import TaskError, first_line

COUNT_FROM_PADDING = (  # families whose first token stands at the position after the padding token's id
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "xmod"),
    *("longformer", "mpnet", "ibert", "esm", "luke"),
)
PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model")  # weights, settings and vocabularies; no code, no pickle


def locate(model: str, mirror: str = "") -> Path:
    """Local folder of ``model``: itself, its copy in the mirror, or what the hub gives. Raises TaskError."""
    path = resolve(model, mirror)
    if not path.exists():
        if is_path(model):
            raise TaskError(f"{model}: no such folder")
        from huggingface_hub import snapshot_download

        try:
            path = Path(snapshot_download(model, allow_patterns=list(PATTERNS)))
        except Exception as error:
            raise TaskError(
                f"{model}: no such folder, and the hub did not give it ({first_line(error)}); "
                "give a local folder, or --mirror DIR with a copy"
            ) from error
    if not (path / "config.json").is_file():
        raise TaskError(f"{model}: not a model folder: no config.json in it")
    if not list(path.glob("*.safetensors")):
        raise TaskError(f"{model}: no .safetensors weights in it; other formats are not read, convert them first")
    return path


# How to load folders that from_pretrained would misread, by a file that tells them; filled by whoever writes such.
LOADERS: dict[str, Callable[[Path], PreTrainedModel]] = {}


def weight_files(folder: Path) -> list[Path]:
    """Files of a model folder that decide what it computes, sorted."""
    return sorted(file for pattern in PATTERNS for file in folder.glob(pattern))


def load_config(folder: Path) -> PreTrainedConfig:
    """Settings of the model in ``folder``. Raises TaskError where they cannot be read."""
    try:
        return AutoConfig.from_pretrained(folder)
    except Exception as error:
        raise TaskError(f"{folder}: config.json cannot be used: {first_line(error)}") from error


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Tokenizer in ``folder``, cutting where the model has no more positions.

    Raises TaskError where there is none, or none that can pad.
    """
    config = load_config(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        padding_id(tokenizer)
    except Exception as error:
        raise TaskError(f"{folder}: no usable tokenizer: {first_line(error)}") from error
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):  # what transformers makes of no files
        raise TaskError(f"{folder}: no tokenizer in it: expected tokenizer.json, or a vocabulary of the model's kind")
    tokenizer.model_max_length = min(tokenizer.model_max_length, _positions(config))
    return tokenizer


def _positions(config: PreTrainedConfig) -> int:
    """Most tokens that the model of ``config`` has positions for."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:  # relative positions only
        return sys.maxsize
    if config.model_type in COUNT_FROM_PADDING:
        return positions - (config.pad_token_id or 0) - 1
    return positions


def skeleton(config: PreTrainedConfig, name: str, kind: Any = AutoModelForSequenceClassification) -> PreTrainedModel:
    """The classifier of ``config`` without weights, on the meta device. Raises TaskError if there is none."""
    what = "sequence classifier" if kind is AutoModelForSequenceClassification else "causal language model"
    try:
        with torch.device("meta"):
            return kind.from_config(config)
    except Exception as error:
        raise TaskError(f"{name}: transformers has no {what} for it: {first_line(error)}") from error


def load_classifier(folder: Path) -> PreTrainedModel:
    """Classifier in ``folder`` as it was trained. Raises TaskError if a part of it was not."""
    model, drawn = _from_pretrained(folder, AutoModelForSequenceClassification, "float32", "")
    if drawn:
        raise TaskError(
            f"{folder}: no trained weights for {', '.join(drawn[:3])}: add --finetune to train them on your data"
        )
    return model


def load_language_model(folder: Path, dtype: str, device_map: Any = "") -> PreTrainedModel:
    """Language model in ``folder``. Raises TaskError if there is none, or a part of it was never trained.

    dtype: as torch names it, such as ``bfloat16``; ``auto`` takes that of the weights.
    device_map: as transformers has it; ``auto`` spreads the model over all GPUs. Raises TaskError where that leaves
        weights off them, from where they would come for each pass: heads cannot be removed from such.
    """
    model, drawn = _from_pretrained(folder, AutoModelForCausalLM, dtype, device_map)
    if away := sum(parameter.is_meta for parameter in model.parameters()):
        raise TaskError(
            f"{folder}: {away} of its weights do not fit on the devices here, and heads cannot be removed from "
            "weights that come from elsewhere for each pass: use --dtype bfloat16, or leave --device-map out"
        )
    if drawn or model.get_output_embeddings() is None:
        part = ", ".join(drawn[:3]) or "an output over the vocabulary"
        raise TaskError(f"{folder}: {type(model).__name__} is no language model here: no trained weights for {part}")
    return model


def load_for_training(
    folder: Path, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """Model in ``folder`` with a head for ``labels``; a head or pooler without weights there is drawn from ``seed``."""
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, _ = _from_pretrained(
            folder, AutoModelForSequenceClassification, "float32", "", num_labels=len(labels), **names
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = padding_id(tokenizer)
    return model


def label_places(config: PreTrainedConfig, labels: Sequence[str], name: str) -> list[int]:
    """Index, among the model's classes, of each of the data's ``labels``: by name, or by number where they are numbers.

    Raises TaskError for a label that the model does not have.
    """
    names = [str(name) for _, name in sorted((config.id2label or {}).items())]
    if all(label.isdigit() and place_of(label, names) is None for label in labels):
        names = [str(place) for place in range(len(names))]
    places = [place_of(label, names) for label in labels]
    missing = [label for label, place in zip(labels, places, strict=True) if place is None]
    if missing:
        raise TaskError(
            f"{name}: the model has no label {', '.join(map(repr, missing[:3]))}, only {', '.join(names)}: "
            "rename the labels of the data, or add --finetune"
        )
    return [place for place in places if place is not None]


def _loaded(
    folder: Path, load: Callable[[Path], PreTrainedModel], dtype: str, num_labels: int | None
) -> PreTrainedModel:
    """The model that ``load`` reads, with a head for ``num_labels`` if that many are asked for. Raises TaskError."""
    try:
        model = load(folder)
    except ValueError as error:
        raise TaskError(str(error)) from error
    if num_labels not in (None, model.config.num_labels):
        raise TaskError(f"{folder}: has a head for {model.config.num_labels} labels, the data has {num_labels}")
    return model if dtype == "auto" else _cast(model, getattr(torch, dtype))


def _cast(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """``model`` in ``dtype``, as ``from_pretrained`` has it: what is no weight, such as rotary frequencies, stays."""
    lasting = model.state_dict().keys()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in lasting and tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    model.config.dtype = dtype
    return model


def _from_pretrained(
    folder: Path, kind: Any, dtype: str, device_map: Any, **settings: Any
) -> tuple[PreTrainedModel, list[str]]:
    """Model of ``kind``, and the names of its parameters that ``folder`` has no weights for, drawn at random.

    Raises TaskError where the weights cannot be read, or more than a head and a pooler would have to be drawn.
    """
    for name, load in LOADERS.items():
        if (folder / name).is_file():
            if device_map:
                raise TaskError(f"{folder}: a pruned model, which --device-map does not spread: leave that out")
            return _loaded(folder, load, dtype, settings.get("num_labels")), []
    try:
        model, report = kind.from_pretrained(
            folder,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            dtype=dtype,
            device_map=device_map or None,
            **settings,
        )
    except Exception as error:
        raise TaskError(f"{folder}: the weights cannot be loaded: {first_line(error)}") from error
    drawn = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
    body = [name for name in drawn if name.startswith(model.base_model_prefix + ".") and "pooler" not in name]
    if body:
        raise TaskError(f"{folder}: the weights do not fit config.json: none of that shape for {', '.join(body[:3])}")
    return model, drawn
