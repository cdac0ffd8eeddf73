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
from bench.exports.gguf_origin import EVEN, FREQUENCIES, check_same_model
from bench.records.errors import InputError
from methods.heads import load_pruned
from methods.heads.finding.mlps import find_mlps
from methods.heads.finding.sites import find_sites
from tasks.models.cache import system_errors

UNEVEN = "deci"  # the architecture in llama.cpp
FAMILIES = ("llama", "mistral")  # model types that its converter stores as ``llama``
OF_ATTENTION = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")
QUANTISED = "give the file that the converter wrote with --outtype f16, bf16 or f32, and quantise what comes out"


@dataclass(frozen=True)
class Written:
    """What the file says: its architecture in llama.cpp, and query heads of each layer.

    window: tokens that the checkpoint attends to, where they are fewer than it has positions for; no graph of llama.cpp
    that the file can name has a window. None where it attends to all.
    """

    architecture: str
    heads: list[int]
    window: int | None


def check_installed() -> None:
    """Raise InputError unless the package ``gguf`` is installed."""
    if find_spec("gguf") is None:
        raise InputError("GGUF files need the package gguf: python -m pip install 'headbench[gguf]'")


def write_gguf(checkpoint: Path, like: Path, out: Path) -> Written:
    """Write the pruned Llama or Mistral in the folder ``checkpoint`` to ``out``.

    like: the GGUF file of the unpruned model, with weights of 16 or 32 bits, whose types are kept.

    Raises InputError where the file is of another model, quantised or one of several parts, the model has biases or no
    head in its first layer, which llama.cpp does not load, and where ``out`` exists.
    """
    check_installed()
    from gguf import GGUFReader

    if out.exists():
        raise _exists(out)
    if not like.is_file():
        raise InputError(f"{like}: no such file (expected the GGUF file of the unpruned model)")
    with like.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{like}: not a GGUF file (it does not begin with GGUF)")
    with in_one_line(f"{like}: not a GGUF file that can be read"):
        before = GGUFReader(like)
        # An empty array says nothing, and cannot be written.
        fields = {name: field.contents() for name, field in before.fields.items() if field.data}
        places = {tensor.name: _place(tensor.name) for tensor in before.tensors}
    try:
        model: Any = load_pruned(checkpoint)
    except ValueError as error:
        raise InputError(str(error)) from error
    shape = _shape_of(model)
    check_same_model(model, shape.head_dim, fields, before, like)
    weights = dict(_weights(model, before, places, shape, like))
    with (
        system_errors(out),
        in_one_line(f"{out}: the GGUF file cannot be written"),
        tempfile.TemporaryDirectory(dir=out.parent, prefix=".headbench-") as folder,
    ):
        made = Path(folder) / "whole.gguf"
        _write(made, before, fields, shape, weights)
        try:
            out.touch(exist_ok=False)  # only what is ours is replaced
        except FileExistsError:
            raise _exists(out) from None
        made.replace(out)
    window = getattr(model.config, "sliding_window", None)
    return Written(
        shape.architecture, shape.heads, window if window and window < model.config.max_position_embeddings else None
    )


def _exists(out: Path) -> InputError:
    return InputError(f"{out}: exists already: give another file")


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
    neurons = [mlp.width for mlp in find_mlps(model)]
    if 0 in neurons:
        raise InputError(f"layer {neurons.index(0)} has no neuron, of which llama.cpp's graph leaves out its heads too")
    return Shape(
        heads=heads,
        key_value_heads=[site.num_key_value_heads if site.num_heads else 0 for site in sites],
        neurons=neurons,
        head_dim=sites[0].head_dim,
    )


def _weights(
    model: nn.Module, before: Any, places: Mapping[str, tuple[int | None, str]], shape: Shape, like: Path
) -> Iterator[tuple[str, tuple[np.ndarray, Any]]]:
    """The tensors of the new file with their types, by name, in the order of the old one."""
    ours = _named_as_in_gguf(model, len(shape.heads))
    empty = {layer for layer, heads in enumerate(shape.heads) if not heads}
    if "output.weight" not in places and torch.equal(ours["output.weight"], ours["token_embd.weight"]):
        ours.pop("output.weight")  # which llama.cpp takes from the embeddings
    for tensor in before.tensors:
        layer, part = places[tensor.name]
        if part in OF_ATTENTION and layer in empty:
            ours.pop(tensor.name, None)  # which llama.cpp does not look for
            continue
        if tensor.name == FREQUENCIES:
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
    if ours:
        raise InputError(f"{like}: lacks {next(iter(ours))}, which the checkpoint has: another model")


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
    if not np.isfinite(values).all():
        raise InputError(f"{tensor.name}: the checkpoint has numbers that are not finite")
    if tensor.tensor_type == Type.BF16:
        return quantize(values, Type.BF16)
    if tensor.tensor_type not in (Type.F32, Type.F16):
        raise InputError(f"{like}: {tensor.name} is quantised ({tensor.tensor_type.name}): {QUANTISED}")
    with np.errstate(over="ignore"):
        encoded = values.astype({Type.F32: np.float32, Type.F16: np.float16}[tensor.tensor_type])
    if not np.isfinite(encoded).all():
        raise InputError(f"{tensor.name}: too large for the 16 bits of {like}: use a file of --outtype bf16 or f32")
    return encoded


def _write(
    path: Path,
    before: Any,
    fields: Mapping[str, Any],
    shape: Shape,
    weights: Mapping[str, tuple[np.ndarray, Any]],
) -> None:
    from gguf import GGUFValueType, GGUFWriter

    architecture = shape.architecture

    def renamed(name: str) -> str:
        return f"{architecture}.{name.removeprefix(f'{EVEN}.')}" if name.startswith(f"{EVEN}.") else name

    writer = GGUFWriter(path, architecture)
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
    if "general.alignment" in fields:
        writer.add_custom_alignment(fields["general.alignment"])
    # The size in the name of the unpruned model is no longer that of this one.
    known = {*ours, "general.architecture", "general.alignment", "general.size_label"}
    for name, value in fields.items():
        if not name.startswith("GGUF.") and name not in known:
            types = before.fields[name].types
            writer.add_key_value(renamed(name), value, types[0], types[-1] if types[0] == GGUFValueType.ARRAY else None)
    for name, (values, kind) in weights.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
