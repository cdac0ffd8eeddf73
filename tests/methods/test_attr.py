"""Attribution by averaged gradients at contexts equals the sum over alpha of gradients at scaled attention maps."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch
import transformers as t

from methods.attr import attr
from methods.heads import gated
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
