"""ONNX files of models whose layers differ, some without any head, give the logits of the model."""

from __future__ import annotations

import pytest
import torch

from bench.exports.check import largest_gap
from bench.exports.onnx_files import OPSET, write_onnx
from bench.exports.runner import Runner, in_place_of
from methods.heads import HeadMap

SIZES = {"batch", "sequence", "past_sequence", "encoder_sequence", "sequence + past_sequence"}


@pytest.fixture(scope="module", params=["bert", "llama", "t5"])
def exported(request, uneven, onnx, tmp_path_factory):
    """A model and its files."""
    model = uneven(request.param)
    folder = tmp_path_factory.mktemp(request.param) / "onnx"
    return model, write_onnx(model, ("input_ids", "attention_mask"), folder)


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(("size", "length"), [(1, 7), (3, 5), (2, 1)])
def test_logits_are_those_of_the_model(exported, texts, size, length, padding):
    """In batches and lengths other than those of the example; of a language model, also with a cache."""
    model, files = exported
    inputs = texts(size, length, padding)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 40, (size, length + 2))
    assert largest_gap(model, Runner(files), inputs) < 1e-5


@pytest.mark.slow
def test_a_model_in_half_precision_is_compared_in_float32(uneven, onnx, texts, tmp_path):
    model = uneven("bert").bfloat16()
    files = write_onnx(model, ("input_ids", "attention_mask"), tmp_path / "onnx")
    assert largest_gap(model, Runner(files), texts(3, 5)) < 1e-5
    assert model.dtype == torch.bfloat16


@torch.no_grad()
def test_a_runner_takes_the_place_of_the_model(exported, texts):
    model, files = exported
    twin, inputs = in_place_of(model, Runner(files)), texts(2, 5, "left")
    if not model.can_generate():
        torch.testing.assert_close(twin(**inputs).logits, model(**inputs).logits, rtol=0, atol=1e-4)
    elif model.config.is_encoder_decoder:
        settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
        expected = model.generate(**inputs, **settings)
        for cache in (True, False):  # the graph has none
            assert torch.equal(twin.generate(**inputs, **settings, use_cache=cache), expected)
    else:
        mask = inputs["attention_mask"]
        found, expected = twin(**inputs).logits[mask.bool()], model(**inputs).logits[mask.bool()]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_a_difference_is_found(exported, texts):
    model, files = exported
    inputs = texts(2, 6)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    runner = Runner(files)
    with torch.no_grad():
        bias = model.get_output_embeddings() if model.can_generate() else model.classifier
        bias.weight.add_(0.1)
        assert largest_gap(model, runner, inputs) > 1e-3
        bias.weight.sub_(0.1)


def test_layers_without_heads_have_no_attention(exported, onnx):
    model, files = exported
    graphs = [onnx.load(file).graph for file in files]
    softmaxes = sum(node.op_type == "Softmax" for graph in graphs for node in graph.node)
    sites = HeadMap.of(model).sites
    assert softmaxes == sum(site.num_heads > 0 for site in sites) < len(sites)
    assert all(0 not in tensor.dims for graph in graphs for tensor in graph.initializer)


def test_files_have_named_sizes_and_say_nothing_of_the_machine(exported, onnx):
    model, files = exported
    for file in files:
        found = onnx.load(file)
        assert [each.version for each in found.opset_import if not each.domain] == [OPSET]
        sizes = {size.dim_param for each in found.graph.input for size in each.type.tensor_type.shape.dim}
        assert {"batch", "sequence"} <= sizes - {""} <= SIZES
        assert b"site-packages" not in file.read_bytes()
    if model.can_generate() and not model.config.is_encoder_decoder:  # a cache for layers with heads alone
        layers = [site.layer for site in HeadMap.of(model).sites if site.num_heads]
        past = [each.name for each in found.graph.input if "past" in each.name]
        assert past == [f"past_key_values.{layer}.{what}" for layer in layers for what in ("key", "value")]
