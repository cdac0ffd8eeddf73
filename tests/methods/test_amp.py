"""AMP's importances equal those of each text alone, one head and one neuron at a time."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
import transformers as t
from hypothesis import given, settings
from hypothesis import strategies as st

from methods import METHODS
from methods.amp import amp, head_norms
from methods.contract.choosing import select
from methods.heads import find_mlps, gated, gated_neurons, remove_heads, remove_neurons
from tests.fixtures.slow import slow_cases


def inputs_of(model, path, text):
    """Inputs of the linear layer at ``path`` in float64, one tensor (..., inputs) per call."""
    seen = []
    hook = model.get_submodule(path).register_forward_pre_hook(lambda module, args: seen.append(args[0].double()))
    with torch.no_grad():
        model(**text.inputs)
    hook.remove()
    return seen


@torch.no_grad()
def slow_heads(view, texts):
    """The output projection, less its bias, of contexts that are zero but for one head; mean of a unit's heads."""
    result = []
    for unit in view.heads.units:
        site = view.heads.sites[unit.site]
        output = copy.deepcopy(view.model.get_submodule(site.output)).double()
        total = 0.0
        for text in texts:
            for context in inputs_of(view.model, site.output, text):  # (1, T, H * d_h)
                for head in unit.heads:
                    mine = torch.arange(context.shape[2]) // site.head_dim == head
                    added = output(context * mine) - output(torch.zeros_like(context))
                    norms = [sum(abs(value) for value in token) for token in added[0].tolist()]
                    total += sum(norms) / len(norms) / len(unit.heads) / len(texts)
        result.append(total)
    return torch.tensor(result, dtype=torch.float64)


def slow_neurons(view, texts):
    result = {}
    for mlp in find_mlps(view.model):
        result[mlp.name] = torch.zeros(mlp.width, dtype=torch.float64)
        for text in texts:
            for values in inputs_of(view.model, mlp.output, text):
                for neuron in range(mlp.width):
                    magnitudes = [abs(value) for value in values.flatten(0, -2)[:, neuron].tolist()]
                    result[mlp.name][neuron] += sum(magnitudes) / len(magnitudes) / len(texts)
    return result


def assert_importance(actual, view, texts, tolerance=1e-5):
    expected = {"heads": slow_heads(view, texts), **slow_neurons(view, texts)}
    for name, found in {"heads": actual.units, **actual.neurons}.items():
        scale = expected[name].max().item() if len(expected[name]) else 1.0
        torch.testing.assert_close(found, expected[name], rtol=tolerance, atol=tolerance * scale)
    assert actual.neurons.keys() == expected.keys() - {"heads"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_each_text_alone(tiny, architecture, seed, dtype):
    sentences = tiny.sentences(seed, count=5, longest=7)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:2], first, extra=2), tiny.batch(sentences[2:], second, extra=seed)]
    view = tiny.view(tiny.model(architecture, seed, dtype), batches, tiny.unit(architecture))
    assert_importance(amp(view), view, tiny.alone(sentences), 1e-5 if dtype == torch.float32 else 1e-12)


SMALL = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
NO_TOKENS = {"num_labels": 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
GPT2 = {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 4}
BART = {"vocab_size": 30, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 12}
BART |= {"decoder_ffn_dim": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 4, "pad_token_id": 0}
# Not in the other tests: Conv1D, fused projections, MLPs in halves, MLPs that see (B * T, d).
OTHERS = {
    "gpt2": (t.GPT2Config, t.GPT2ForSequenceClassification, GPT2),
    "gpt-neox": (t.GPTNeoXConfig, t.GPTNeoXForSequenceClassification, SMALL),
    "phi3": (t.Phi3Config, t.Phi3ForSequenceClassification, {**SMALL, "num_key_value_heads": 2}),
    "modernbert": (t.ModernBertConfig, t.ModernBertForSequenceClassification, {**SMALL, "local_attention": 4}),
    "opt": (t.OPTConfig, t.OPTForSequenceClassification, {**SMALL, "ffn_dim": 12, "word_embed_proj_dim": 16}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_kinds_of_projections(tiny, other):
    config_class, model_class, own = OTHERS[other]
    model = model_class(config_class(**{**NO_TOKENS, **own})).eval()
    sentences = tiny.sentences(3, count=4)
    view = tiny.view(model, [without_positions(tiny.batch(sentences, extra=1))])
    assert_importance(amp(view), view, tiny.alone(sentences))


def without_positions(batch):
    """With padding on the right, models compute the same positions themselves."""
    return dataclasses.replace(
        batch, inputs={key: value for key, value in batch.inputs.items() if "position" not in key}
    )


def test_encoder_decoders_have_two_lengths(tiny):
    model = t.BartForConditionalGeneration(t.BartConfig(**BART)).eval()
    sources, targets = tiny.sentences(1, count=4), tiny.sentences(2, count=4)

    def pairs(first, last):
        source, target = (without_positions(tiny.batch(texts[first:last])) for texts in (sources, targets))
        decoder = {f"decoder_{name}": values for name, values in target.inputs.items()}
        return dataclasses.replace(source, inputs=source.inputs | decoder)

    view = tiny.view(model, [pairs(0, 3), pairs(3, 4)])
    assert_importance(amp(view), view, [pairs(row, row + 1) for row in range(4)])
    batch = pairs(0, 3)
    del batch.inputs["decoder_attention_mask"]
    with pytest.raises(ValueError, match=r"no decoder_attention_mask that fits model.decoder.layers.0.*: its padding"):
        amp(tiny.view(model, [batch]))
    # Without targets of their own, the decoder reads the source, one place later, and is padded where the source is.
    view = tiny.view(model, [without_positions(tiny.batch(sources))])
    assert_importance(amp(view), view, [without_positions(text) for text in tiny.alone(sources)])


def test_unknown_padding_is_refused(tiny):
    batch = tiny.batch(tiny.sentences(0))
    del batch.inputs["attention_mask"]
    for parts in ("both", "heads", "neurons"):
        with pytest.raises(ValueError, match="no attention_mask that fits"):
            amp(tiny.view(tiny.model("bert"), [batch]), parts=parts)


def test_images_have_no_padding(tiny):
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    model = t.ViTForImageClassification(t.ViTConfig(**sizes, image_size=8, patch_size=4)).eval()
    batch, pixels = tiny.batch(tiny.sentences(0)), torch.randn(6, 3, 8, 8)
    images, *alone = (dataclasses.replace(batch, inputs={"pixel_values": part}) for part in (pixels, *pixels.split(1)))
    view = tiny.view(model, [images])
    assert_importance(amp(view), view, alone)


@settings(max_examples=30)
@given(shape=st.tuples(*[st.integers(1, 9)] * 4), tokens_first=st.booleans(), seed=st.integers(0, 99))
def test_head_norms_of_any_shape(shape, tokens_first, seed):
    tokens, heads, head_dim, width = shape
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(tokens, heads, head_dim, generator=generator, dtype=torch.float64)
    weight = torch.randn(heads * head_dim, width, generator=generator, dtype=torch.float64)
    expected = torch.einsum("nhe,hed->nhd", z, weight.reshape(heads, head_dim, width)).abs().sum(2)
    if tokens_first:  # as nn.Linear holds it
        weight = weight.T.contiguous().T
    torch.testing.assert_close(head_norms(z, weight), expected)


def test_bfloat16_is_added_up_in_float32(tiny, architecture):
    sentences = tiny.sentences(4)
    view = tiny.view(tiny.model(architecture, dtype=torch.bfloat16), [tiny.batch(sentences)], tiny.unit(architecture))
    assert_importance(amp(view), view, tiny.alone(sentences), 2e-2)  # alone, bfloat16 rounds otherwise
    texts = [tiny.batch(sentences[:1])]
    view = dataclasses.replace(view, batches=texts)
    assert_importance(amp(view), view, texts)


def test_heads_and_neurons_alone_score_as_together(tiny, architecture):
    view = tiny.random_view(architecture)
    calls = []
    view = dataclasses.replace(view, forward=lambda model, batch: calls.append(batch) or model(**batch.inputs).logits)
    both = amp(view)
    assert calls == list(view.batches)  # one pass serves both
    heads, neurons = amp(view, parts="heads"), amp(view, parts="neurons")
    assert torch.equal(heads, both.units)
    assert neurons.units is None
    assert neurons.neurons.keys() == both.neurons.keys()
    assert all(torch.equal(neurons.neurons[name], both.neurons[name]) for name in both.neurons)


def test_what_is_gated_scores_zero(tiny, architecture):
    view = tiny.random_view(architecture)
    units = torch.arange(len(view.heads)) % 3 != 0
    neurons = {mlp.name: torch.arange(mlp.width) % 2 == 0 for mlp in find_mlps(view.model)}
    with gated(view.model, units, view.heads), gated_neurons(view.model, neurons):
        silent = amp(view)
    assert torch.equal(silent.units != 0, units)
    assert all(torch.equal(silent.neurons[name] != 0, neurons[name]) for name in neurons)


def test_a_layer_without_heads_or_neurons(tiny, architecture):
    view, sentences = tiny.random_view(architecture), tiny.sentences(0)
    units = view.heads.site_of_unit != 0
    widths = {mlp.name: range(mlp.width if number else 0) for number, mlp in enumerate(find_mlps(view.model))}
    smaller = remove_neurons(remove_heads(view.model, units, view.heads), widths)
    left = tiny.view(smaller, [tiny.batch(sentences)], tiny.unit(architecture))
    importance = amp(left)
    assert len(importance.units) == int(units.sum())
    assert_importance(importance, left, tiny.alone(sentences))


@pytest.mark.parametrize("name", ["amp", "amp-heads", "amp-mlp", "inverse-amp"])
def test_every_layer_loses_the_same_share_of_its_least_important(tiny, architecture, name):
    view = tiny.random_view(architecture)
    importance, sign = amp(view), -1 if name == "inverse-amp" else 1
    layers, per_layer = len(view.heads.shape), view.heads.shape[0]
    removed = [layers * count for count in range(per_layer + 1)]
    (choices,) = select(METHODS[name], METHODS[name].configure({}), view, removed).choices
    for count, choice in enumerate(choices):
        for site in range(layers):
            expected = kept(importance.units[view.heads.site_of_unit == site] * sign, count)
            if name == "amp-mlp":
                expected = torch.ones(per_layer, dtype=torch.bool)
            assert torch.equal(choice.mask[view.heads.site_of_unit == site], expected)
        if name == "amp-heads":
            assert choice.neurons is None
        else:
            for layer, scores in importance.neurons.items():  # 12 neurons: nothing to round
                assert torch.equal(choice.neurons[layer], kept(scores * sign, len(scores) * count // per_layer))


def kept(scores, removed):
    """Mask of all but the ``removed`` lowest scores."""
    return torch.tensor([int((scores < score).sum()) >= removed for score in scores])


def test_which_names_are_controls():
    names = ("amp", "amp-heads", "amp-mlp", "inverse-amp")
    assert [name for name in names if METHODS[name].control] == ["inverse-amp"]
    assert {METHODS[name].configure({})["allocation"] for name in names} == {"layer"}
