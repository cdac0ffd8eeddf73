"""ONNX files of models whose layers differ, some without any head, give the logits of the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import transformers as t

from bench.exports.check import largest, runner_gap
from bench.exports.onnx_files import OPSET, write_onnx
from bench.exports.runner import Runner, in_place_of
from bench.records.errors import InputError
from methods.heads import HeadMap, remove_heads
from tests.fixtures.slow import slow_cases

# Graphs take seconds to make. An encoder is also exported in the tests of the verb prune, Llama in those of tracing.
FAMILIES = slow_cases("bert", "llama", "t5")
SIZES = {"batch", "sequence", "past_sequence", "encoder_sequence", "sequence + past_sequence"}


# As somebody writes it who has only numpy, ONNX Runtime and the page about exports.
ONNX_RUNTIME = """
import numpy, onnxruntime
folder, given = sys.argv[1], dict(numpy.load(sys.argv[2]))

def run(name, given):
    session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx")
    wanted = {each.name: each for each in session.get_inputs()}
    for each in wanted.keys() - given.keys():  # a cache without any token
        given[each] = numpy.zeros((len(given["input_ids"]), wanted[each].shape[1], 0, wanted[each].shape[3]), "f")
    found = session.run(None, {each: given[each] for each in wanted})
    return dict(zip((each.name for each in session.get_outputs()), found))

if sys.argv[3] == "t5":
    encoded = run("encoder_model", given)["last_hidden_state"]
    decoded = {"encoder_hidden_states": encoded, "encoder_attention_mask": given["attention_mask"]}
    ids = numpy.zeros((len(encoded), 1), "int64")
    for _ in range(4):
        logits = run("decoder_model", decoded | {"input_ids": ids})["logits"]
        ids = numpy.concatenate([ids, logits[:, -1:].argmax(-1)], 1)
elif sys.argv[3] == "llama":
    parts, cache = [], {}
    for start, end in ((0, 3), (3, 4), (4, 6)):
        part = {name: given[name][:, start:end] for name in ("input_ids", "position_ids")}
        found = run("model", part | {"attention_mask": given["attention_mask"][:, :end]} | cache)
        parts.append(found.pop("logits"))
        cache = {name.replace("present", "past_key_values"): states for name, states in found.items()}
    logits = numpy.concatenate(parts, 1)
else:
    logits = run("model", given)["logits"]
numpy.save("logits.npy", logits)
"""


@pytest.fixture(scope="module", params=FAMILIES)
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
    assert runner_gap(model, Runner(files), inputs) < 1e-5


@torch.no_grad()
def test_files_run_where_this_project_cannot_be_imported(exported, texts, elsewhere, tmp_path):
    """A language model with its cache, in three parts; an encoder with its decoder, which writes four tokens."""
    model, files = exported
    inputs, family = texts(3, 6, "left"), model.config.model_type
    expected = inputs
    if family == "llama":
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp_min(0)
    elif family == "t5":
        settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "eos_token_id": None}
        written = model.generate(**inputs, **settings)
        expected = {**inputs, "decoder_input_ids": written[:, :-1]}
    np.savez(tmp_path / "inputs.npz", **{name: value.numpy() for name, value in inputs.items()})
    elsewhere(ONNX_RUNTIME, files[0].parent, tmp_path / "inputs.npz", family)
    found, expected = torch.from_numpy(np.load(tmp_path / "logits.npy")), model(**expected).logits
    if family == "llama":
        real = inputs["attention_mask"].bool()
        found, expected = found[real], expected[real]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * max(1, expected.abs().max().item()))
    assert family != "t5" or torch.equal(found.argmax(-1), written[:, 1:])


class Twin:
    """The model itself in the place of its files. lengths: of the texts that it was given."""

    has_cache = False

    def __init__(self, model):
        self.model, self.lengths = model, set()

    def logits(self, inputs):
        self.lengths.add(inputs["input_ids"].shape[1])
        return self.model(**inputs).logits


def ending(inputs, end: int):
    """The same texts, whose last token, and no other, is ``end``."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    last = torch.tensor([row.nonzero().max() for row in mask])
    inputs["input_ids"] = ids.where(ids != end, end + 1).scatter(1, last[:, None], end)
    return inputs


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(("size", "length"), [(1, 7), (3, 5), (8, 9), (2, 1)])
@pytest.mark.parametrize("family", ["bart classifier", "t5 classifier"])
def test_a_classifier_that_looks_for_the_end_is_given_one_at_both_lengths(uneven, texts, family, size, length, padding):
    model = uneven(family)
    inputs = ending(texts(size, length, padding), model.config.eos_token_id)
    assert runner_gap(model, twin := Twin(model), inputs) == 0
    assert twin.lengths == {length, max(1, length // 2)}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bart classifier", "t5 classifier"])
def test_files_of_a_classifier_that_looks_for_the_end_give_its_logits(uneven, onnx, texts, tmp_path, family):
    model = uneven(family)
    runner = Runner(write_onnx(model, ("input_ids", "attention_mask"), tmp_path / "onnx"))
    inputs = ending(texts(3, 7), model.config.eos_token_id)
    assert runner_gap(model, runner, inputs) < 1e-5
    model.classification_head.out_proj.weight.add_(0.1)
    assert runner_gap(model, runner, inputs) > 1e-3


@pytest.mark.slow
def test_a_model_in_half_precision_is_compared_in_float32(uneven, onnx, texts, tmp_path):
    model = uneven("bert").bfloat16()
    files = write_onnx(model, ("input_ids", "attention_mask"), tmp_path / "onnx")
    assert runner_gap(model, Runner(files), texts(3, 5)) < 1e-5
    assert model.dtype == torch.bfloat16


def test_a_model_that_says_something_else_of_a_text_in_parts_is_compared_in_the_same_parts(onnx, texts, tmp_path):
    """With longrope, a text that is longer than those that the model began with changes what came before."""
    rope = {
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16, "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
    }  # fmt: skip
    config = t.Phi3Config(
        vocab_size=40, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0,
        max_position_embeddings=64, rope_parameters=rope, original_max_position_embeddings=16,
    )  # fmt: skip
    torch.manual_seed(0)
    model, inputs = t.Phi3ForCausalLM(config).eval(), texts(2, 24, "right")
    runner = Runner(write_onnx(model, ("input_ids", "attention_mask"), tmp_path / "onnx"))
    assert runner_gap(model, runner, inputs) < 1e-5
    whole, parts = model(**inputs).logits.detach(), runner.logits_in_parts(inputs, 12)
    assert (whole - parts).abs().max() > 1e-3


def not_run(*_, **__):
    raise AssertionError("run in torch")


@torch.no_grad()
def test_a_runner_takes_the_place_of_the_model(exported, texts, monkeypatch):
    model, files = exported
    twin, inputs = in_place_of(model, Runner(files)), texts(2, 5, "left")
    if not model.can_generate():
        torch.testing.assert_close(twin(**inputs).logits, model(**inputs).logits, rtol=0, atol=1e-4)
    elif model.config.is_encoder_decoder:
        settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
        expected = model.generate(**inputs, **settings)
        monkeypatch.setattr(twin.get_encoder(), "forward", not_run)  # its encoder is the file's too
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
        assert runner_gap(model, runner, inputs) > 1e-3
        bias.weight.sub_(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_language_model_without_any_head(uneven, onnx, texts, tmp_path, family):
    """It has no cache, and takes positions all the same."""
    model = uneven(family)
    model = remove_heads(model, torch.zeros(len(HeadMap.of(model)), dtype=torch.bool))
    runner = Runner(write_onnx(model, ("input_ids", "attention_mask"), tmp_path / "onnx"))
    assert runner_gap(model, runner, texts(3, 7, "right")) < 1e-5


def test_a_model_that_torch_makes_no_graph_of_is_refused_in_one_line(onnx, tmp_path, capfd):
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}  # a branch that depends on what it is given
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 20}
    config = t.LlamaConfig(vocab_size=40, rope_parameters=rope, max_position_embeddings=32, **sizes)
    with pytest.raises(InputError, match="torch makes no graph of LlamaForCausalLM"):
        write_onnx(t.LlamaForCausalLM(config).eval(), ("input_ids", "attention_mask"), tmp_path / "onnx")
    assert capfd.readouterr() == ("", "")


def test_what_onnx_runtime_does_not_run_is_told_once(exported, texts, capfd):
    _, files = exported
    inputs = texts(2, 5, "right")
    inputs["input_ids"] = inputs["input_ids"] + 1000  # words that there are none of
    with pytest.raises(InputError, match="ONNX Runtime"):
        Runner(files).logits(inputs)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_number_is_the_largest_difference():
    assert all(math.isnan(largest(gaps)) for gaps in ([0.0, math.nan], [math.nan, 0.0])) and largest([0.0, 0.5]) == 0.5


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
