"""Attribution by averaged gradients at contexts equals the sum over alpha of gradients at scaled attention maps."""

from __future__ import annotations

import itertools
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
import transformers as t

from methods.attr import attr
from methods.checks.tiny import Batch
from methods.heads import gated, observed
from tests.methods.heads.conftest import Zoo
from tests.methods.heads.small_models import build, randomize
from tests.methods.translating import FAMILIES, translating

SIZES = {"vocab_size": 30, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
DECODER = {**SIZES, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
FUSED = {
    "gpt2": lambda: t.GPT2ForSequenceClassification(t.GPT2Config(n_embd=16, n_layer=2, n_head=4, **SIZES)),
    "gpt-neox": lambda: t.GPTNeoXForSequenceClassification(t.GPTNeoXConfig(**DECODER)),
    "phi3": lambda: t.Phi3ForSequenceClassification(t.Phi3Config(num_key_value_heads=2, **DECODER)),
    "qwen3-next": lambda: t.Qwen3NextForSequenceClassification(  # queries with gates of contexts
        t.Qwen3NextConfig(
            num_key_value_heads=2, head_dim=4, layer_types=["full_attention"] * 2, mlp_only_layers=[0, 1], **DECODER
        )
    ),
    "deepseek-v3": lambda: t.DeepseekV3ForSequenceClassification(  # keys and values from a latent state
        t.DeepseekV3Config(
            **{"q_lora_rank": 6, "kv_lora_rank": 6, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 5},
            first_k_dense_replace=2,
            num_key_value_heads=4,
            **DECODER,
        )
    ),
}


class Scaled:
    """Replaces a model's eager attention: in one layer, alpha times the map, with a gradient."""

    def __init__(self, model, patch):
        self.module = sys.modules[type(model).__module__]
        self.eager = self.module.eager_attention_forward
        model.set_attn_implementation("eager")
        patch.setattr(self.module, "eager_attention_forward", self)

    def begin(self, layer, alpha):
        self.layer, self.alpha, self.now = layer, alpha, 0

    def __call__(self, module, query, key, value, *args, **kwargs):
        output, rows = self.eager(module, query, key, value, *args, **kwargs)  # rows (1, H, T, T)
        self.now += 1
        if self.now - 1 == self.layer:
            self.rows = rows.detach()
            self.scaled = (self.alpha * self.rows).requires_grad_()
            value = value.detach().repeat_interleave(rows.shape[1] // value.shape[1], 1)  # (1, H, T, d_h)
            output = (self.scaled @ value).transpose(1, 2)
        return output, rows


def attributions(view, text, layer, steps, begin, scaled):
    """Attr of every head of one layer for one text, and F with the maps of the layer zero and unchanged."""
    total, ends = 0, []
    for alpha in [(step + begin) / steps for step in range(steps)]:
        scaled.begin(layer, alpha)
        right = view.loss(text)[0].neg().exp()
        total = total + torch.autograd.grad(right, scaled.scaled)[0]
    for alpha in (0, 1):
        scaled.begin(layer, alpha)
        ends.append(view.loss(text)[0].neg().exp().item())
    return (scaled.rows * total / steps)[0], ends  # (H, T, S)


def slow_attr(view, texts, steps, begin, scaled):
    """The mean of each head's largest entry over texts and the layers that are tied, then over a unit's heads."""
    sums = {}
    for text in texts:
        layers = itertools.count()  # in the order in which they run
        for index, site in enumerate(view.heads.sites):
            for layer in itertools.islice(layers, site.calls):
                each, _ = attributions(view, text, layer, steps, begin, scaled)
                for head in range(site.num_heads):
                    share = each[head].max().item() / site.calls / len(texts)
                    sums[index, head] = sums.get((index, head), 0.0) + share
    return torch.tensor(
        [sum(sums[unit.site, head] for head in unit.heads) / len(unit.heads) for unit in view.heads.units],
        dtype=torch.float64,
    )


@pytest.mark.parametrize(("variant", "begin"), [("right", 1), ("left", 0)])
def test_maps_scaled_for_each_text_and_alpha(tiny, architecture, variant, begin, monkeypatch):
    sentences = tiny.sentences(begin, count=4, longest=6)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=2), tiny.batch(sentences[3:], second)]
    # Eager Llama takes its softmax in float32 whatever the model's dtype, and float64's lowest number is -inf there.
    dtype, tolerance = (torch.float32, 1e-3) if architecture.startswith("llama") else (torch.float64, 1e-9)
    view = tiny.view(tiny.model(architecture, begin, dtype), batches, tiny.unit(architecture))
    actual = attr(view, steps=3, variant=variant)
    expected = slow_attr(view, tiny.alone(sentences), 3, begin, Scaled(view.model, monkeypatch))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_of_cross_attention_for_each_pair(family, monkeypatch):
    view, pairs = translating(family, 3)
    actual = attr(view, steps=2)
    expected = slow_attr(view, pairs, 2, 1, Scaled(view.model, monkeypatch))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)


def test_nothing_at_padding_is_the_largest(tiny, architecture, monkeypatch):
    """The one entry of the map of a text of one token may be negative; those at padding are zero."""
    sentences = tiny.sentences(0, count=4, longest=1)
    view = tiny.view(tiny.model(architecture), [tiny.batch(sentences, extra=2)], tiny.unit(architecture))
    actual = attr(view, steps=2)
    assert (actual < 0).any()
    expected = slow_attr(view, tiny.alone(sentences), 2, 1, Scaled(view.model, monkeypatch))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", list(FUSED))
def test_values_of_fused_projections(tiny, family, monkeypatch):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FUSED[family]().double().eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.4) if parameter.dim() == 2 else None
    sentences = tiny.sentences(3, count=3, longest=6)
    view = tiny.view(model, [tiny.batch(sentences)])
    actual = attr(view, steps=2)
    expected = slow_attr(view, tiny.alone(sentences), 2, 1, Scaled(model, monkeypatch))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("layer", [0, 1])
def test_the_oracle_is_complete(tiny, architecture, layer, monkeypatch):
    """Integrated gradients add up to the change of F between no map and the whole one, as steps grow."""
    view = tiny.random_view(architecture, dtype=torch.float64)
    scaled = Scaled(view.model, monkeypatch)
    (text,) = tiny.alone(tiny.sentences(0, count=1, longest=6, shortest=6))
    each, (nothing, whole) = attributions(view, text, layer, 50, 0.5, scaled)
    assert abs(whole - nothing) > 1e-2
    assert abs(each.sum().item() - (whole - nothing)) < 1e-3


def test_heads_removed_before_stay_removed(tiny, architecture, monkeypatch):
    """Heads that are removed stay at zero for every alpha."""
    sentences = tiny.sentences(1, count=3, longest=6)
    view = tiny.view(tiny.model(architecture, 1, torch.float64), [tiny.batch(sentences)], tiny.unit(architecture))
    kept = torch.arange(len(view.heads)) % 2 == 1
    with gated(view.model, kept, view.heads):
        actual = attr(view, steps=2)
        expected = slow_attr(view, tiny.alone(sentences), 2, 1, Scaled(view.model, monkeypatch))
    torch.testing.assert_close(actual[kept], expected[kept], rtol=1e-4, atol=1e-8)


# Modules that change what the value projection gives before attention weighs it, or contexts afterwards.
CHANGED_VALUES = ["deberta", "roformer", "mimo_v2_flash", "afmoe", "gemma4_text", "lfm3"]


@contextmanager
def at_contexts(view, site, change):
    """Inside, replace the contexts of a site by ``change`` of them, (B, T, H * d_h)."""
    output = view.model.get_submodule(site.output)
    hook = output.register_forward_pre_hook(lambda module, args: (change(args[0]), *args[1:]))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def with_graph(model):
    """Inside, every embedding begins a graph, so that attention maps and contexts have one though the model has none"""
    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    hooks = [each.register_forward_hook(lambda *call: call[-1].detach().requires_grad_()) for each in embeddings]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def attr_by_graphs(view, texts, steps):
    """As ``slow_attr``, with the gradient at the map from the graph between the map and the context of the module."""
    sums = torch.zeros(len(view.heads), dtype=torch.float64)
    for text in texts:
        maps, contexts = {}, {}
        with with_graph(view.model), observed(view.model, attention=maps.__setitem__, context=contexts.__setitem__):
            view.logits(text)
        for index, site in enumerate(view.heads.sites):
            total = torch.zeros(())
            for step in range(steps):
                scaled = ((step + 1) / steps * contexts[index].flatten(-2)).detach().requires_grad_()
                with at_contexts(view, site, lambda _, scaled=scaled: scaled):
                    right = view.loss(text)[0].neg().exp()
                total = total + torch.autograd.grad(right, scaled)[0] / steps
            (gradient,) = torch.autograd.grad(contexts[index].flatten(-2), maps[index], total, retain_graph=True)
            largest = (maps[index] * gradient)[0].detach().amax((1, 2))  # (H,)
            sums += torch.cat(
                [
                    view.per_unit(other, largest.double() if other == index else torch.zeros(each.num_heads))
                    for other, each in enumerate(view.heads.sites)
                ]
            )
    return sums / len(texts)


def hidden_states_as_logits(model, batch):
    """Three fixed random sums of the last token's hidden state, of a model without a classifier: (B, 3)."""
    hidden = model(**batch.inputs)[0][:, -1]
    return hidden @ torch.randn(hidden.shape[-1], 3, generator=torch.Generator().manual_seed(5)).to(hidden) / 4


@pytest.mark.parametrize("family", CHANGED_VALUES)
def test_values_that_the_module_changes(tiny, family):
    zoo = Zoo()
    if family in zoo.families():
        model, inputs = zoo.model(family), zoo.batch(family)
    else:
        model = build(family, True)
        randomize(model)
        ids = torch.randint(3, 48, (3, 6), generator=torch.Generator().manual_seed(1))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch = Batch(inputs, torch.arange(len(inputs["input_ids"])) % 3)
    view = tiny.view(model.requires_grad_(False), [batch])
    if family not in zoo.families():
        view = replace(view, forward=hidden_states_as_logits)
    texts = []
    for row, length in enumerate(inputs["attention_mask"].sum(1).tolist()):
        one = {name: values[row : row + 1, :length] for name, values in inputs.items()}
        texts.append(Batch(one, batch.labels[row : row + 1]))
    torch.testing.assert_close(attr(view, steps=2), attr_by_graphs(view, texts, 2), rtol=1e-3, atol=1e-6)


def test_half_precision_has_room_for_large_losses(tiny):
    """Language models sum the loss over their tokens, so exp(-loss) is far below the numbers that float16 has."""
    sentences = tiny.sentences(0, count=4)
    views = [tiny.view(tiny.model("llama", 0, dtype), [tiny.batch(sentences)]) for dtype in (torch.float32, torch.half)]
    views = [replace(view, loss_of_logits=lambda *a, own=view.loss_of_logits: own(*a) + 30) for view in views]
    single, half = (attr(view, steps=2) for view in views)
    assert half.count_nonzero() == len(half)
    torch.testing.assert_close(half, single, rtol=0.1, atol=0.02 * single.max().item())
