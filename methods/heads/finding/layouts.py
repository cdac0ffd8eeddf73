"""Where each family of attention modules keeps its projections, and what is special about it.

One entry a layout, not one a model: a model is recognised by what its attention modules hold, and an entry serves every
model built alike. Entries are tried in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

ROLES = ("query", "key", "value")

# Names under which attention modules know the width of one head.
HEAD_DIM = ("attention_head_size", "head_dim", "head_size", "key_value_proj_dim")

# Parts of a path that say that a site attends to another sequence.
CROSS_ATTENTION = ("crossattention", "cross_attention", "cross_attn", "encoder_attn", "EncDecAttention")


class UnsupportedArchitecture(ValueError):
    """The model's attention is not understood well enough to be pruned exactly."""


@dataclass(frozen=True)
class Layout:
    """Names of an attention module's parts, relative to it; a leading ``../`` starts at its parent.

    Roles that share a name share one fused projection: its rows are the queries of all heads, then the keys, then the
    values, or, if ``interleaved``, query, key and value of the first head, then of the next. Names cannot tell the two
    apart, so a fused layout holds for the ``classes`` it was checked for.
    """

    query: str
    key: str
    value: str
    output: str
    interleaved: bool = False
    classes: tuple[str, ...] = ()  # empty: any class
    position_bias: bool = False  # gets a bias (1 or B, heads, T, S) made for all the heads the model had at first
    reads_config: bool = False  # takes its number of query heads from the configuration that all layers share
    needs_heads: bool = False  # its forward cannot run when no head is left
    after: str = ""  # what it applies to the output projection's result (read if needs_heads)

    def paths(self) -> tuple[str, str, str, str]:
        """Names of the query, key, value and output projections."""
        return self.query, self.key, self.value, self.output

    @property
    def fused(self) -> bool:
        """Whether one module computes several of query, key and value."""
        return len({self.query, self.key, self.value}) < 3


LAYOUTS = (
    # BERT, RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA
    Layout("query", "key", "value", "../output.dense"),
    # ALBERT
    Layout("query", "key", "value", "dense"),
    # DistilBERT
    Layout("q_lin", "k_lin", "v_lin", "out_lin"),
    # Llama, Mistral, Qwen2, Qwen3, Gemma 2, ViT
    Layout("q_proj", "k_proj", "v_proj", "o_proj"),
    # Phi
    Layout("q_proj", "k_proj", "v_proj", "dense"),
    # BART, Marian, OPT
    Layout("q_proj", "k_proj", "v_proj", "out_proj", needs_heads=True),
    # T5, mT5, MPNet
    Layout("q", "k", "v", "o", position_bias=True, classes=("T5Attention", "MT5Attention", "MPNetSelfAttention")),
    # Phi-3
    Layout("qkv_proj", "qkv_proj", "qkv_proj", "o_proj", classes=("Phi3Attention",), reads_config=True),
    # ModernBERT
    Layout("Wqkv", "Wqkv", "Wqkv", "Wo", classes=("ModernBertAttention",)),
    # GPT-NeoX
    Layout("query_key_value", "query_key_value", "query_key_value", "dense", True, classes=("GPTNeoXAttention",)),
    # GPT-2, where it attends to another sequence, and to its own
    Layout("q_attn", "c_attn", "c_attn", "c_proj", needs_heads=True, after="resid_dropout", classes=("GPT2Attention",)),
    Layout("c_attn", "c_attn", "c_attn", "c_proj", needs_heads=True, after="resid_dropout", classes=("GPT2Attention",)),
)


def geometry(num_heads: int, num_key_value_heads: int, head_dim: int) -> dict[str, int]:
    """What the attributes that attention modules keep of their geometry must be; a module has some of them."""
    # No head left counts as one query a group: the kernels divide by the number of groups otherwise.
    queries_per_group = num_heads // num_key_value_heads if num_key_value_heads else 1
    return {
        **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads"), num_heads),
        "num_key_value_heads": num_key_value_heads,
        "num_key_value_groups": queries_per_group,
        **dict.fromkeys(("all_head_size", "inner_dim", "split_size"), num_heads * head_dim),
    }


def part(path: str, name: str) -> str:
    """Dotted path of a layout's part ``name`` for the attention module at ``path``."""
    while name.startswith("../"):
        path, name = path.rpartition(".")[0], name.removeprefix("../")
    return f"{path}.{name}" if path else name


def match_layout(path: str, modules: dict[str, nn.Module]) -> Layout | None:
    """The layout of the module at ``path``; None if it is no attention module.

    Raises UnsupportedArchitecture where the names fit but the class was never checked and names are not enough.
    """
    fitting = [layout for layout in LAYOUTS if all(part(path, name) in modules for name in layout.paths())]
    name = type(modules[path]).__name__
    for layout in fitting:
        if not layout.classes or name in layout.classes:
            return layout
    if fitting:
        raise UnsupportedArchitecture(
            f"{name} at {path} has the parts of {', '.join(fitting[0].classes)}, but was never checked to work alike; "
            "a class that does needs its name in methods/heads/finding/layouts.py"
        )
    return None
