"""Classifiers from a folder or the hub: safetensors only, no remote code, and no head that was never trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tasks.encode import padding_id
from tasks.errors import TaskError
from tasks.source import first_line, resolve

PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model")  # weights, settings and vocabularies; no code, no pickle


def locate(model: str, mirror: str = "") -> Path:
    """Local folder of ``model``: itself, its copy in the mirror, or what the hub gives. Raises TaskError."""
    path = resolve(model, mirror)
    if not path.exists():
        if model.startswith((".", "/", "~")) or model.count("/") > 1:
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


def weight_files(folder: Path) -> list[Path]:
    """Files of a model folder that decide what it computes, sorted."""
    return sorted(file for pattern in PATTERNS for file in folder.glob(pattern))


def load_config(folder: Path) -> PreTrainedConfig:
    """Settings of the model in ``folder``. Raises TaskError where they cannot be read."""
    try:
        return AutoConfig.from_pretrained(folder)
    except Exception as error:
        raise TaskError(f"{folder}: config.json cannot be read: {first_line(error)}") from error


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Tokenizer in ``folder``. Raises TaskError where there is none, or none that can pad."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        padding_id(tokenizer)
    except Exception as error:
        raise TaskError(f"{folder}: no usable tokenizer: {first_line(error)}") from error
    return tokenizer


def skeleton(config: PreTrainedConfig, name: str) -> PreTrainedModel:
    """The classifier of ``config`` without weights, on the meta device. Raises TaskError if there is none."""
    try:
        with torch.device("meta"):
            return AutoModelForSequenceClassification.from_config(config)
    except Exception as error:
        raise TaskError(f"{name}: transformers has no sequence classifier for it: {first_line(error)}") from error


def load_classifier(folder: Path) -> PreTrainedModel:
    """Classifier in ``folder`` as it was trained. Raises TaskError if a part of it was not."""
    model, report = _from_pretrained(folder)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise TaskError(f"{folder}: no trained weights for {missing}: add --finetune to train them on your data")
    return model


def load_for_training(
    folder: Path, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """Model in ``folder`` with a head for ``labels``; weights that are not in the folder are drawn from ``seed``."""
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, _ = _from_pretrained(folder, num_labels=len(labels), ignore_mismatched_sizes=True, **names)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = padding_id(tokenizer)
    return model


def label_places(config: PreTrainedConfig, labels: Sequence[str], name: str) -> list[int]:
    """Index, among the model's classes, of each of the data's ``labels``: by name, or by number where they are numbers.

    Raises TaskError for a label that the model does not have.
    """
    names = [str(text) for text in (config.label2id or {})]
    known = {text.lower(): int(place) for text, place in (config.label2id or {}).items()}
    if all(label.isdigit() and label not in known for label in labels):
        known = {str(place): place for place in range(len(names))}
    missing = [label for label in labels if label.lower() not in known]
    if missing:
        raise TaskError(
            f"{name}: the model has no label {missing[0]!r}, only {', '.join(names)}: "
            "rename the labels of the data, or add --finetune"
        )
    return [known[label.lower()] for label in labels]


def _from_pretrained(folder: Path, **settings):
    try:
        return AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, dtype=torch.float32, **settings
        )
    except Exception as error:
        raise TaskError(f"{folder}: the weights cannot be loaded: {first_line(error)}") from error
