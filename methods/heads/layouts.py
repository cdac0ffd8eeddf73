"""Where each family of attention modules keeps its projections, and in what order their rows lie.

One entry a layout, not one a model: a model is recognised by what its attention modules hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

ROLES = ("query", "key", "value")


class UnsupportedArchitecture(ValueError):
    """The model's attention is not understood well enough to be pruned exactly."""


@dataclass(frozen=True)
class Layout:
    """Names of an attention module's parts, relative to it; a leading ``../`` starts at its parent."""

    query: str
    key: str
    value: str
    output: str

    def paths(self) -> tuple[str, str, str, str]:
        """Names of the query, key, value and output projections."""
        return self.query, self.key, self.value, self.output


LAYOUTS = (
    Layout("query", "key", "value", "../output.dense"),  # BERT, RoBERTa, XLM-RoBERTa
    Layout("query", "key", "value", "dense"),  # ALBERT
    Layout("q_lin", "k_lin", "v_lin", "out_lin"),  # DistilBERT
    Layout("q_proj", "k_proj", "v_proj", "o_proj"),  # Llama, Mistral, Qwen2
)

# Attributes by which attention modules know the width of one head.
HEAD_DIM = ("attention_head_size", "head_dim")


def geometry(num_heads: int, num_key_value_heads: int, head_dim: int) -> dict[str, int]:
    """What the attributes that attention modules keep of their geometry must be; a module has some of them."""
    # No head left counts as one query a group: the kernels divide by the number of groups otherwise.
    queries_per_group = num_heads // num_key_value_heads if num_key_value_heads else 1
    return {
        **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads"), num_heads),
        **dict.fromkeys(("num_key_value_heads",), num_key_value_heads),
        **dict.fromkeys(("num_key_value_groups",), queries_per_group),
        **dict.fromkeys(("all_head_size",), num_heads * head_dim),
    }


def part(path: str, name: str) -> str:
    """Dotted path of a layout's part ``name`` for the attention module at ``path``."""
    while name.startswith("../"):
        path, name = path.rpartition(".")[0], name.removeprefix("../")
    return f"{path}.{name}" if path else name


def matching_layouts(path: str, modules: dict[str, nn.Module]) -> Iterator[Layout]:
    """Layouts all of whose parts exist for the module at ``path``."""
    for layout in LAYOUTS:
        if all(part(path, name) in modules for name in layout.paths()):
            yield layout


def head_rows(heads: list[int], head_dim: int) -> torch.Tensor:
    """Rows of a projection's output that belong to ``heads``: LongTensor (len(heads) * head_dim,)."""
    return (torch.tensor(heads, dtype=torch.long)[:, None] * head_dim + torch.arange(head_dim)).flatten()
