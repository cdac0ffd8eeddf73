"""Writing a pruned Llama as a GGUF file, after the one that llama.cpp's converter made of the unpruned model.

Weights come from the checkpoint, everything else (tokenizer, templates, numbers of the architecture) from that file. In
llama.cpp the graph of ``llama`` takes the first layer's number of heads for all layers. That of ``deci`` computes the
same, with a number for each layer, so a model with layers that differ is stored under that name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.exports.errors import in_one_line
from bench.records.errors import InputError
from methods.heads.finding.mlps import find_mlps
from methods.heads.finding.sites import find_sites

EVEN, UNEVEN = "llama", "deci"  # architectures in llama.cpp
FAMILIES = ("llama", "mistral")  # model types that its converter stores as ``llama``
COPIED = "rope_freqs.weight"  # made from the configuration by the converter, of no weight
OF_ATTENTION = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")
QUANTISED = "give the file that the converter wrote with --outtype f16, bf16 or f32, and quantise what comes out"


@dataclass(frozen=True)
class Written:
    """What the file says: its architecture in llama.cpp, and query and key/value heads of each layer."""

    architecture: str
    heads: list[int]
    key_value_heads: list[int]


def check_installed() -> None:
    """Raise InputError unless the package ``gguf`` is installed."""
    if find_spec("gguf") is None:
        raise InputError("GGUF files need the package gguf: python -m pip install 'headbench[gguf]'")


def write_gguf(model: Any, like: Path, out: Path) -> Written:
    """Write ``model``, a pruned Llama or Mistral, to ``out``.

    like: the GGUF file of the unpruned model, with weights of 16 or 32 bits, whose types are kept.

    Raises InputError where the file is of another model or is quantised, the model has biases or no head in its first
    layer, which llama.cpp does not load, and where ``out`` exists.
    """
    from gguf import GGUFReader

    check_installed()
    if out.exists():
        raise InputError(f"{out}: exists already: give another file")
    if not like.is_file():
        raise InputError(f"{like}: no such file (expected the GGUF file of the unpruned model)")
    with in_one_line(f"{like}: not a GGUF file that can be read"):
        before = GGUFReader(like)
    shape = _shape_of(model)
    _check_same_model(model, before, like)
    weights = dict(_weights(model, before, shape, like))
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        made = Path(folder) / out.name
        _write(made, before, shape, weights)
        made.rename(out)
    return Written(shape.architecture, shape.heads, shape.key_value_heads)


@dataclass(frozen=True)
class Shape:
    """Numbers of a model by layer."""

    heads: list[int]
    key_value_heads: list[int]
    neurons: list[int]
    head_dim: int

    @property
    def architecture(self) -> str:
        """The graph of llama.cpp that takes such layers."""
        numbers = (self.heads, self.key_value_heads, self.neurons)
        return EVEN if all(len(set(each)) == 1 for each in numbers) else UNEVEN

    @property
    def fields(self) -> dict[str, list[int]]:
        """The numbers that differ from those of the unpruned model, by the end of the field's name."""
        return {
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.key_value_heads,
            "feed_forward_length": self.neurons,
        }


def _shape_of(model: Any) -> Shape:
    kind = model.config.model_type
    if kind not in FAMILIES or not type(model).__name__.endswith("ForCausalLM"):
        raise InputError(
            f"{type(model).__name__}: GGUF files are written of Llama and Mistral with a head for words; for others, "
            "prune with --uniform and use llama.cpp's converter"
        )
    if biases := [name for name, _ in model.named_parameters() if name.endswith(".bias")]:
        raise InputError(f"{biases[0]}: a bias, which llama.cpp's graph for layers that differ does not have")
    sites = find_sites(model)
    heads = [site.num_heads for site in sites]
    if not heads[0]:
        raise InputError("the first layer has no head, and llama.cpp loads no such model: prune with --uniform")
    return Shape(
        heads=heads,
        key_value_heads=[site.num_key_value_heads if site.num_heads else 0 for site in sites],
        neurons=[mlp.width for mlp in find_mlps(model)],
        head_dim=sites[0].head_dim,
    )


def _check_same_model(model: Any, before: Any, like: Path) -> None:
    """Raise InputError where the file and the configuration of the checkpoint say different things."""
    config = model.config
    if (architecture := _value(before, "general.architecture")) != EVEN:
        raise InputError(f"{like}: of architecture {architecture}, expected {EVEN}, of the unpruned model")
    rope = getattr(config, "rope_parameters", None) or {}
    expected = {
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": rope.get("rope_theta"),
    }
    for name, ours in expected.items():
        theirs = _value(before, f"{EVEN}.{name}")
        if None not in (ours, theirs) and not np.isclose(ours, theirs, rtol=1e-5):
            raise InputError(f"{like}: {EVEN}.{name} is {theirs:g}, that of the checkpoint {ours:g}: another model")


def _value(file: Any, name: str) -> Any:
    field = file.get_field(name)
    return None if field is None else field.contents()


def _weights(model: nn.Module, before: Any, shape: Shape, like: Path) -> Iterator[tuple[str, tuple[np.ndarray, Any]]]:
    """The tensors of the new file with their types, by name, in the order of the old one."""
    ours = _named_as_in_gguf(model, len(shape.heads))
    for tensor in before.tensors:
        layer, part = _place(tensor.name)
        if layer is not None and part in OF_ATTENTION and not shape.heads[layer]:
            ours.pop(tensor.name, None)  # which llama.cpp does not look for
            continue
        if tensor.name == COPIED:
            yield tensor.name, (tensor.data, tensor.tensor_type)
            continue
        if tensor.name not in ours:
            raise InputError(f"{like}: has {tensor.name}, and the checkpoint nothing of the kind: another model")
        weight = ours.pop(tensor.name)
        if part in ("attn_q", "attn_k") and layer is not None:
            weight = _rotated(weight, shape.head_dim)
        narrowed = part in (*OF_ATTENTION[1:], "ffn_gate", "ffn_up", "ffn_down")
        former = tuple(int(size) for size in reversed(tensor.shape))
        if len(former) != weight.ndim or any(
            new > old if narrowed else new != old for new, old in zip(weight.shape, former, strict=True)
        ):
            raise InputError(f"{like}: {tensor.name} is {former}, that of the checkpoint {tuple(weight.shape)}")
        yield tensor.name, (_encoded(weight, tensor, like), tensor.tensor_type)
    if left := [name for name in ours if name != "output.weight"]:  # which a model that ties it may have twice
        raise InputError(f"{like}: lacks {left[0]}, which the checkpoint has: another model")


def _named_as_in_gguf(model: nn.Module, layers: int) -> dict[str, Tensor]:
    from gguf import MODEL_ARCH, get_tensor_name_map

    names = get_tensor_name_map(MODEL_ARCH.LLAMA, layers)
    found = {}
    for name, weight in model.state_dict().items():
        known = names.get_name(name, try_suffixes=(".weight",))
        if known is None:
            raise InputError(f"{name}: llama.cpp's {EVEN} has no such weight")
        found[known] = weight
    return found


def _place(name: str) -> tuple[int | None, str]:
    """The layer of a tensor, if it is of one, and which it is there."""
    parts = name.split(".")
    return (int(parts[1]), parts[2]) if parts[0] == "blk" else (None, parts[0])


def _rotated(weight: Tensor, head_dim: int) -> Tensor:
    """Rows of queries or keys in llama.cpp's order: the two numbers that are rotated together stand side by side."""
    by_head = weight.reshape(-1, 2, head_dim // 2, weight.shape[1])
    return by_head.transpose(1, 2).reshape(weight.shape)


def _encoded(weight: Tensor, tensor: Any, like: Path) -> np.ndarray:
    """``weight`` as numbers of the type of ``tensor``."""
    from gguf import GGMLQuantizationType as Type
    from gguf import quantize

    values = weight.detach().to(torch.float32).contiguous().numpy()
    if tensor.tensor_type == Type.BF16:
        return quantize(values, Type.BF16)
    if tensor.tensor_type not in (Type.F32, Type.F16):
        raise InputError(f"{like}: {tensor.name} is quantised ({tensor.tensor_type.name}): {QUANTISED}")
    with np.errstate(over="ignore"):
        encoded = values.astype({Type.F32: np.float32, Type.F16: np.float16}[tensor.tensor_type])
    if not np.isfinite(encoded).all():
        raise InputError(f"{tensor.name}: too large for the 16 bits of {like}: use a file of --outtype bf16 or f32")
    return encoded


def _write(path: Path, before: Any, shape: Shape, weights: Mapping[str, tuple[np.ndarray, Any]]) -> None:
    from gguf import GGUFValueType, GGUFWriter

    architecture = shape.architecture

    def renamed(name: str) -> str:
        return f"{architecture}.{name.removeprefix(f'{EVEN}.')}" if name.startswith(f"{EVEN}.") else name

    writer = GGUFWriter(path, architecture, endianess=before.endianess)
    ours = {
        **{f"{EVEN}.{name}": numbers for name, numbers in shape.fields.items()},
        **{f"{EVEN}.{name}": shape.head_dim for name in ("attention.key_length", "attention.value_length")},
        f"{EVEN}.rope.dimension_count": shape.head_dim,
    }
    for name, value in ours.items():
        if isinstance(value, int):
            writer.add_uint32(renamed(name), value)
        elif architecture == EVEN:
            writer.add_uint32(renamed(name), value[0])
        else:
            writer.add_array(renamed(name), value)
    for field in before.fields.values():
        # The size in the name of the unpruned model is no longer that of this one.
        if field.name.startswith("GGUF.") or field.name in (*ours, "general.architecture", "general.size_label"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(renamed(field.name), field.contents(), kind, inner)
    for name, (values, kind) in weights.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
