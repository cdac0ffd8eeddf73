"""Models and tokenizers from a folder or the hub: safetensors only, and no remote code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from tasks.data.encode import padding_id
from tasks.data.location import is_path, resolve
from tasks.errors import TaskError, first_line

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

MEANINGS = {
    AutoModelForSequenceClassification: "sequence classifier",
    AutoModelForCausalLM: "causal language model",
    AutoModelForSeq2SeqLM: "translation model",
}
COUNT_FROM_PADDING = (  # families that number positions from the padding token's id plus 1
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "xmod"),
    *("longformer", "mpnet", "ibert", "esm", "luke", "markuplm", "lilt", "layoutlmv3"),
)
ADAPTER = "adapter_config.json"  # where it is, transformers adds the adapter's weights if PEFT is installed
PATTERNS = (
    "*.safetensors",
    "*.json",
    "*.txt",
    "*.model",
)  # weights, configurations and vocabularies; no code, no pickle


def locate(model: str, mirror: str = "") -> Path:
    """Local folder of ``model``: itself, its copy in the mirror, or a download from the hub. Raises TaskError."""
    path = resolve(model, mirror)
    if not path.exists():
        if is_path(model):
            raise TaskError(f"{model}: no such folder")
        from huggingface_hub import snapshot_download

        try:
            path = Path(snapshot_download(model, allow_patterns=list(PATTERNS)))
        except Exception as error:
            raise TaskError(
                f"{model}: no such folder, and it cannot be loaded from the hub ({first_line(error)}); "
                "give a local folder, or --mirror DIR with a copy"
            ) from error
    if (path / ADAPTER).is_file():
        raise TaskError(
            f"{model}: holds a PEFT adapter ({ADAPTER}): merge it into its model (merge_and_unload) and save that alone"
        )
    if not (path / "config.json").is_file():
        raise TaskError(f"{model}: not a model folder: no config.json in it")
    if not list(path.glob("*.safetensors")):
        raise TaskError(f"{model}: no .safetensors weights in it; convert other formats first")
    return path


@dataclass(frozen=True)
class Format:
    """How to read and write models that ``from_pretrained`` and ``save_pretrained`` would not."""

    load: Callable[[Path], PreTrainedModel]
    save: Callable[[PreTrainedModel, Path], object]  # into a new folder


FORMATS: dict[str, Format] = {}  # by the name of a file that is in every folder of the format


def format_of(folder: Path) -> Format | None:
    """How to read and write the model in ``folder``; None where transformers does."""
    return next((each for name, each in FORMATS.items() if (folder / name).is_file()), None)


def weight_files(folder: Path) -> list[Path]:
    """Files of a model folder that determine its outputs, sorted."""
    return sorted(file for pattern in PATTERNS for file in folder.glob(pattern) if file.is_file())


def _why(error: Exception) -> str:
    """The cause of ``error`` in one line. Where a model needs code of its own, transformers advises to trust it."""
    if "trust_remote_code" in str(error):
        return "it needs Python code that comes with it, which is never run"
    return first_line(error)


def load_config(folder: Path) -> PreTrainedConfig:
    """Configuration of the model in ``folder``. Raises TaskError if it cannot be read."""
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise TaskError(f"{folder}: config.json cannot be read: {_why(error)}") from error


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Tokenizer in ``folder``, which truncates to the positions of the model, and pads on the right.

    Padding on the left would move texts to other positions where those are not given, and be scored as their context.

    Raises TaskError if there is none, or if it cannot pad.
    """
    config = load_config(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        stated = config.get_text_config().pad_token_id
        if tokenizer.pad_token_id is tokenizer.eos_token_id is None and stated in range(len(tokenizer)):
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(stated)
        padding_id(tokenizer)
    except Exception as error:
        raise TaskError(f"{folder}: no usable tokenizer: {_why(error)}") from error
    if set(tokenizer.get_vocab().values()) <= set(
        tokenizer.all_special_ids
    ):  # transformers makes such a tokenizer without any files
        raise TaskError(f"{folder}: no tokenizer in it: expected tokenizer.json, or a vocabulary file")
    tokenizer.model_max_length = _stated_length(tokenizer, folder)
    if most := _positions(config):
        tokenizer.model_max_length = min(tokenizer.model_max_length, most)
    tokenizer.padding_side = "right"
    return tokenizer


def _stated_length(tokenizer: PreTrainedTokenizerBase, folder: Path) -> int:
    """Tokens that a text may have by the files of ``tokenizer``: room for one of its own at least. Raises TaskError."""
    stated = tokenizer.model_max_length
    if isinstance(stated, float) and stated.is_integer():
        stated = int(stated)
    least = max(2, tokenizer.num_special_tokens_to_add() + 1)
    if not isinstance(stated, int) or stated < least:
        raise TaskError(
            f"{folder}: tokenizer_config.json: model_max_length {stated!r}: expected a number of tokens from {least} on"
        )
    return stated


def own_padding_side(tokenizer: PreTrainedTokenizerBase) -> str:
    """The side that the files of ``tokenizer`` say, which ``load_tokenizer`` does not follow."""
    return tokenizer.init_kwargs.get("padding_side", tokenizer.padding_side)


def _positions(config: PreTrainedConfig) -> int | None:
    """Largest number of tokens that the model of ``config`` has positions for; None if it does not say."""
    positions = getattr(config, "max_position_embeddings", getattr(config, "max_seq_len", None))
    if not isinstance(positions, int) or positions < 1:  # relative positions only
        return None
    if config.model_type in COUNT_FROM_PADDING:
        return positions - (config.pad_token_id or 0) - 1
    return positions


def skeleton(config: PreTrainedConfig, name: str, kind: Any = AutoModelForSequenceClassification) -> PreTrainedModel:
    """The model of ``config`` without weights, on the meta device. Raises TaskError if transformers has none."""
    try:
        with torch.device("meta"):
            return kind.from_config(config, trust_remote_code=False)
    except Exception as error:
        raise TaskError(f"{name}: transformers has no {MEANINGS[kind]} for it: {_why(error)}") from error


def load_language_model(folder: Path, dtype: str, device_map: Any = "") -> PreTrainedModel:
    """Language model in ``folder``. Raises TaskError if there is none, or if a part of it has no trained weights.

    dtype: torch's name, such as ``bfloat16``; ``auto`` for that of the weights.
    device_map: as in transformers; ``auto`` spreads the model over all GPUs. Raises TaskError if weights are offloaded
        because they do not fit: heads cannot be removed from those.
    """
    model, untrained = read(folder, AutoModelForCausalLM, dtype, device_map)
    if offloaded := sum(parameter.is_meta for parameter in model.parameters()):
        raise TaskError(
            f"{folder}: {offloaded} of its weights do not fit on the devices here, and heads cannot be removed from "
            "offloaded weights: use --dtype bfloat16, or leave --device-map out"
        )
    if untrained or model.get_output_embeddings() is None:
        part = ", ".join(untrained[:3]) or "an output over the vocabulary"
        raise TaskError(f"{folder}: {type(model).__name__} is not a language model: no trained weights for {part}")
    return model


def _loaded(
    folder: Path, load: Callable[[Path], PreTrainedModel], kind: Any, dtype: str, num_labels: int | None
) -> PreTrainedModel:
    """The model that ``load`` reads, in ``dtype``.

    Raises TaskError if it is not of ``kind``, or does not have ``num_labels`` labels.
    """
    try:
        model = load(folder)
    except ValueError as error:
        raise TaskError(str(error)) from error
    if not isinstance(model, type(skeleton(model.config, str(folder), kind))):
        raise TaskError(f"{folder}: a pruned {type(model).__name__}, which is not a {MEANINGS[kind]}")
    if num_labels not in (None, model.config.num_labels):
        raise TaskError(
            f"{folder}: has a head for {model.config.num_labels} labels, the data has "
            f"{num_labels}: a pruned model keeps its head, so prune one with {num_labels}"
        )
    if dtype != "auto":
        cast(model, getattr(torch, dtype))
    return model


def cast(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Turn ``model`` to ``dtype``. As in ``from_pretrained``, only what is saved is cast, not rotary frequencies."""
    for weight in saved_weights(model):
        weight.data = weight.data.to(dtype)
    model.config.dtype = dtype


def saved_weights(model: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers with a place in the state dict, shared ones once, without those of whole numbers."""
    saved = model.state_dict().keys()
    named = (*model.named_parameters(), *model.named_buffers())
    return [tensor for name, tensor in named if name in saved and tensor.is_floating_point()]


def read(
    folder: Path, kind: Any, dtype: str = "float32", device_map: Any = "", **config: Any
) -> tuple[PreTrainedModel, list[str]]:
    """Model of ``kind``, and the names of its parameters without weights in ``folder``, which are initialized randomly.

    kind: a class of transformers such as ``AutoModelForCausalLM``. dtype, device_map: as in ``load_language_model``.
    config: what is to differ from the configuration in ``folder``.

    Raises TaskError if the weights cannot be read, if more than a head and a pooler have none, or if there are more of
    them than the configuration has a place for.
    """
    if found := format_of(folder):
        if device_map:
            raise TaskError(f"{folder}: a pruned model, which cannot be spread over GPUs: leave --device-map out")
        model = _loaded(folder, found.load, kind, dtype, config.get("num_labels"))
        for name in config.keys() - {"num_labels"}:
            setattr(model.config, name, config[name])
        return model, []
    try:
        model, report = kind.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            dtype=dtype,
            device_map=device_map or None,
            **config,
        )
    except Exception as error:
        raise TaskError(f"{folder}: the weights cannot be loaded: {_why(error)}") from error
    untrained = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
    body = [name for name in untrained if name.startswith(model.base_model_prefix + ".") and "pooler" not in name]
    if body:
        raise TaskError(
            f"{folder}: the weights do not match config.json: none of the right shape for {', '.join(body[:3])}"
        )
    if left := [name for name in sorted(report["unexpected_keys"]) if _is_of_body(model, name)]:
        raise TaskError(
            f"{folder}: the weights do not match config.json: it has no place for {', '.join(left[:3])}, "
            "and without them it would be another model"
        )
    return model, untrained


def _is_of_body(model: nn.Module, name: str) -> bool:
    """Whether a weight ``name``, which ``model`` lacks, is one more of a layer that it has, or of one more layer.

    Others may be heads of other tasks, poolers, or parts that transformers leaves out.
    """
    path, _, _ = name.rpartition(".")
    try:
        return isinstance(getattr(model.get_submodule(path), "weight", None), nn.Parameter)
    except AttributeError:
        pass
    while path := path.rpartition(".")[0]:
        try:
            return isinstance(model.get_submodule(path), nn.ModuleList)
        except AttributeError:
            pass
    return False
