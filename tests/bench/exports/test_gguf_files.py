"""A pruned Llama as a GGUF file: the same weights in llama.cpp's order, and nothing that would run wrongly."""

from __future__ import annotations

import errno
import shutil
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFEndian, GGUFReader, dequantize
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from bench.__main__ import main
from bench.exports import gguf_files
from bench.exports.gguf_origin import divisors
from bench.records.errors import InputError
from methods.heads import remove_heads, remove_neurons, save_pruned
from methods.heads.finding.sites import find_sites
from tests.bench.exports.unpruned_gguf import PARTS, WHOLE, in_order_of_llama_cpp, llama, write_unpruned

TEXT = torch.tensor([[1, 5, 9, 2, 33, 60, 7, 8]])
MASKS = {  # kept units, of 2 query heads each where keys are shared
    "even": {4: [1, 0, 1, 0] * 3, 2: [1, 0, 0, 1, 1, 0]},
    "uneven": {4: [1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1], 2: [1, 1, 0, 1, 1, 0]},
    "an empty layer": {4: [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1], 2: [1, 1, 0, 0, 1, 0]},
    "the last empty": {4: [1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], 2: [1, 1, 0, 1, 0, 0]},
}


def pruned(model, mask):
    return remove_heads(model, torch.tensor(mask, dtype=torch.bool))


def write_gguf(model, like: Path, out: Path) -> gguf_files.Written:
    """Save the model and write it."""
    folder = out.with_name("checkpoint")
    shutil.rmtree(folder, ignore_errors=True)
    save_pruned(model, folder)
    try:
        return gguf_files.write_gguf(folder, like, out)
    finally:
        shutil.rmtree(folder)


def read(path: Path) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Fields and tensors of a file."""
    file = GGUFReader(path)
    tensors = {
        each.name: dequantize(each.data, each.tensor_type).reshape([int(size) for size in reversed(each.shape)])
        for each in file.tensors
    }
    return {name: field.contents() for name, field in file.fields.items()}, tensors


def expected(model) -> dict[str, np.ndarray]:
    """The tensors that a file of ``model`` has, head by head."""
    sites = find_sites(model)
    found = {}
    for name, weight in model.state_dict().items():
        if name in WHOLE:
            if name != "lm_head.weight" or not model.config.tie_word_embeddings:
                found[f"{WHOLE[name]}.weight"] = weight.float().numpy()
            continue
        _, _, layer, part = name.removesuffix(".weight").split(".", 3)
        site, values = sites[int(layer)], weight.float().numpy()
        if not site.num_heads and PARTS[part].startswith("attn"):
            continue
        heads = {"attn_q": site.num_heads, "attn_k": site.num_key_value_heads}.get(PARTS[part])
        found[f"blk.{layer}.{PARTS[part]}.weight"] = in_order_of_llama_cpp(values, heads) if heads else values
    return found


@pytest.mark.parametrize(
    ("kind", "key_value_heads", "mask"),
    [*product(["F32"], [4, 2], MASKS), ("F16", 2, "uneven"), ("BF16", 4, "an empty layer")],
)
def test_the_file_has_the_weights_and_numbers_of_the_checkpoint(tmp_path, kind, key_value_heads, mask):
    model = llama(key_value_heads)
    like = write_unpruned(tmp_path / "like.gguf", model, kind)
    smaller = pruned(model, MASKS[mask][key_value_heads])
    written = write_gguf(smaller, like, tmp_path / "out.gguf")
    before, (fields, tensors) = read(like)[0], read(tmp_path / "out.gguf")
    wanted = expected(smaller)
    assert tensors.keys() == wanted.keys()
    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    for name, values in wanted.items():
        rounded = torch.tensor(values).to(torch.float32 if values.ndim == 1 else dtype).float().numpy()
        assert np.array_equal(tensors[name], rounded), name
    sites = find_sites(smaller)
    heads, shared = [s.num_heads for s in sites], [s.num_key_value_heads if s.num_heads else 0 for s in sites]
    even = mask == "even"
    name = "llama" if even else "deci"
    assert written.architecture == fields["general.architecture"] == name and written.heads == heads
    assert fields[f"{name}.attention.head_count"] == (heads[0] if even else heads)
    assert fields[f"{name}.attention.head_count_kv"] == (shared[0] if even else shared)
    assert fields[f"{name}.feed_forward_length"] == (96 if even else [96] * 3)
    assert fields[f"{name}.attention.key_length"] == fields[f"{name}.attention.value_length"] == 16
    same = {each for each in before if each.startswith("tokenizer.")} | {"general.name"}
    assert all(fields[each] == before[each] for each in same)
    assert fields[f"{name}.rope.freq_base"] == before["llama.rope.freq_base"]
    assert "general.size_label" not in fields
    assert even or not any(each.startswith("llama.") for each in fields)


@pytest.mark.parametrize("key_value_heads", [4, 2])
@pytest.mark.parametrize("tied", [False, True])
def test_transformers_reads_an_even_one(tmp_path, key_value_heads, tied):
    model = llama(key_value_heads, tied)
    like = write_unpruned(tmp_path / "like.gguf", model)
    smaller = pruned(model, MASKS["even"][key_value_heads])
    with torch.no_grad():
        smaller.model.layers[1].self_attn.o_proj.weight.mul_(1.5)  # as recovery does
        smaller.model.layers[2].mlp.up_proj.weight.add_(0.1)  # as training does
    remove_neurons(smaller, {f"model.layers.{layer}.mlp": range(40) for layer in range(3)}, in_place=True)
    write_gguf(smaller, like, tmp_path / "out.gguf")
    again = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="out.gguf", head_dim=16)
    with torch.no_grad():
        torch.testing.assert_close(again(TEXT).logits, smaller(TEXT).logits, rtol=1e-4, atol=1e-4)


def test_neurons_that_differ_by_layer_are_told(tmp_path):
    model = llama(2)
    like = write_unpruned(tmp_path / "like.gguf", model)
    smaller = remove_neurons(model, {f"model.layers.{layer}.mlp": range((96, 32, 96)[layer]) for layer in range(3)})
    assert write_gguf(smaller, like, tmp_path / "out.gguf").architecture == "deci"
    fields, tensors = read(tmp_path / "out.gguf")
    assert fields["deci.feed_forward_length"] == [96, 32, 96]
    assert tensors["blk.1.ffn_down.weight"].shape == (64, 32)


@pytest.mark.parametrize("kind", [LlamaForCausalLM, MistralForCausalLM])
@pytest.mark.parametrize("tied", [False, True])
def test_tied_words_and_mistral(tmp_path, kind, tied):
    model = llama(2, tied, kind)
    like = write_unpruned(tmp_path / "like.gguf", model, fields={"general.alignment": 128})
    smaller = pruned(model, MASKS["uneven"][2])
    write_gguf(smaller, like, tmp_path / "out.gguf")
    fields, tensors = read(tmp_path / "out.gguf")
    wanted = expected(smaller)
    assert tensors.keys() == wanted.keys() and ("output.weight" in tensors) == (not tied)
    assert all(np.array_equal(tensors[name], values) for name, values in wanted.items())
    assert fields["general.alignment"] == 128


@pytest.mark.parametrize(("window", "told"), [(None, False), (5, True), (10**6, False)])
def test_a_window_that_the_file_cannot_have_is_told(tmp_path, capsys, window, told):
    model = llama(2, False, MistralForCausalLM)
    model.config.sliding_window = window
    like = write_unpruned(tmp_path / "like.gguf", model)
    save_pruned(pruned(model, MASKS["even"][2]), tmp_path / "smaller")
    assert main(["gguf", str(tmp_path / "smaller"), "--like", str(like), "--out", str(tmp_path / "out.gguf")]) == 0
    assert ("attends to the last 5 tokens" in capsys.readouterr().out) == told


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
SCALED = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}


def frequencies(factor: float = 8.0) -> dict[str, np.ndarray]:
    return {"rope_freqs.weight": divisors(LLAMA3 | {"factor": factor}, 16).astype(np.float32)}


def test_frequencies_are_divided_as_in_transformers():
    config = llama(2, rope_parameters=dict(LLAMA3)).config
    found, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 5e5 ** -(torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(found, plain / torch.tensor(divisors(LLAMA3, 16)), rtol=1e-5, atol=0, check_dtype=False)
    assert len(set(divisors(LLAMA3, 16).tolist())) > 2  # short, long and between


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        (None, {}, True),
        (None, {"fields": SCALED}, False),
        (None, {"tensors": frequencies()}, False),
        (LINEAR, {"fields": SCALED}, True),
        (LINEAR, {}, False),
        (LINEAR, {"fields": SCALED | {"llama.rope.scaling.factor": 2.0}}, False),
        (LLAMA3, {"tensors": frequencies()}, True),
        (LLAMA3, {"tensors": frequencies(2.0)}, False),
        (LLAMA3, {}, False),
        ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, {}, False),
    ],
)
def test_positions_have_to_be_scaled_alike(tmp_path, ours, theirs, fits):
    model = llama(2, **({"rope_parameters": dict(ours)} if ours else {}))
    like = write_unpruned(tmp_path / "like.gguf", model, **theirs)
    if fits:
        write_gguf(pruned(model, MASKS["uneven"][2]), like, tmp_path / "out.gguf")
        before, after = read(like)[1], read(tmp_path / "out.gguf")[1]
        assert all(np.array_equal(after[name], before[name]) for name in before if name == "rope_freqs.weight")
    else:
        with pytest.raises(InputError, match=r"rope_type|scaled"):
            write_gguf(pruned(model, MASKS["uneven"][2]), like, tmp_path / "out.gguf")


def other_theta(tmp_path: Path, model) -> Path:
    model.config.rope_parameters["rope_theta"] = 5e5
    return write_unpruned(tmp_path / "like.gguf", model)


def without_theta(tmp_path: Path, model) -> Path:
    """As converters write it that do not find the base in the configuration."""
    path = write_unpruned(tmp_path / "like.gguf", model)
    path.write_bytes(path.read_bytes().replace(b"llama.rope.freq_base", b"llama.rope.freq_bass"))
    return path


def more_words(tmp_path: Path, model) -> Path:
    return write_unpruned(tmp_path / "like.gguf", model.resize_token_embeddings(80) and model)


def one_less(tmp_path: Path, model) -> Path:
    del model.model.layers[1].mlp.up_proj
    return write_unpruned(tmp_path / "like.gguf", model)


def text(tmp_path: Path, model) -> Path:
    (tmp_path / "like.gguf").write_text("no")
    return tmp_path / "like.gguf"


def broken_text(tmp_path: Path, model) -> Path:
    path = write_unpruned(tmp_path / "like.gguf", model)
    path.write_bytes(path.read_bytes().replace(b"tiny", b"\xff\xfe\xfd\xfc"))
    return path


ONES = np.ones((2, 2), np.float32)
ODD = {
    "of another architecture": (lambda t, m: write_unpruned(t / "like.gguf", m, architecture="qwen2"), "qwen2"),
    "quantised": (lambda t, m: write_unpruned(t / "like.gguf", m, "Q8_0"), "quantised (Q8_0)"),
    "of another base": (other_theta, "rope.freq_base is 500000"),
    "without its base": (without_theta, "rope.freq_base is 10000, that of the checkpoint 500000"),
    "with more words": (more_words, "token_embd.weight is (80, 64)"),
    "with a tensor less": (one_less, "lacks blk.1.ffn_up.weight"),
    "not one": (text, "not a GGUF file (it does not begin with GGUF)"),
    "missing": (lambda t, m: t / "none.gguf", "no such file"),
    "one of several": (lambda t, m: write_unpruned(t / "like.gguf", m, fields={"split.count": 3}), "one of 3 parts"),
    "with text for a number": (
        lambda t, m: write_unpruned(t / "like.gguf", m, fields={"split.count": "two"}),
        "split.count is 'two', expected a number",
    ),
    "big-endian": (lambda t, m: write_unpruned(t / "like.gguf", m, endianess=GGUFEndian.BIG), "big-endian"),
    "without its words": (lambda t, m: write_unpruned(t / "like.gguf", llama(2, tied=True)), "lacks output.weight"),
    "with odd names": (lambda t, m: write_unpruned(t / "like.gguf", m, tensors={"blk.x.y": ONES}), "not a GGUF file"),
    "with another layer": (
        lambda t, m: write_unpruned(t / "like.gguf", m, tensors={"blk.9.attn_q.weight": ONES}),
        "blk.9",
    ),
    "with text that is none": (broken_text, "not a GGUF file"),
    "of a smaller model": (lambda t, m: write_unpruned(t / "like.gguf", llama(1)), "attn_k.weight is (16, 64)"),
}


@pytest.mark.parametrize("what", ODD)
def test_a_file_that_does_not_fit_is_refused(tmp_path, what):
    make, said = ODD[what]
    smaller = pruned(llama(2), MASKS["uneven"][2])
    if what == "without its base":
        smaller.config.rope_parameters["rope_theta"] = 5e5
    like = make(tmp_path, llama(2))
    with pytest.raises(InputError) as refused:
        write_gguf(smaller, like, tmp_path / "out.gguf")
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert {each.name for each in tmp_path.iterdir()} <= {"like.gguf"}


def test_models_that_llama_cpp_would_not_run_are_refused(tmp_path):
    model = llama(4)
    like = write_unpruned(tmp_path / "like.gguf", model)
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16))
    odd_ones = [(gpt2, "Llama and Mistral"), (llama(4, mlp_bias=True), "a bias")]
    odd_ones.append((pruned(model, [0] * 4 + [1] * 8), "first layer"))
    no_neuron = {f"model.layers.{layer}.mlp": range((96, 0, 96)[layer]) for layer in range(3)}
    odd_ones.append((remove_neurons(model, no_neuron), "layer 1 has no neuron"))
    for odd, said in odd_ones:
        with pytest.raises(InputError, match=said):
            write_gguf(odd, like, tmp_path / "out.gguf")
    too_large = llama(4)
    with torch.no_grad():
        too_large.model.layers[1].mlp.up_proj.weight[0, 0] = 1e6
    half = write_unpruned(tmp_path / "half.gguf", model, "F16")
    odd = llama(4)
    with torch.no_grad():
        odd.model.layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    for like_it in (like, half):
        with pytest.raises(InputError, match="not finite"):
            write_gguf(odd, like_it, tmp_path / "out.gguf")
    with pytest.raises(InputError, match="too large for the 16 bits"):
        write_gguf(too_large, half, tmp_path / "out.gguf")
    assert {each.name for each in tmp_path.iterdir()} == {"like.gguf", "half.gguf"}


def test_a_disk_that_is_full_is_told_of_the_new_file(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    like = write_unpruned(tmp_path / "like.gguf", llama(2))
    monkeypatch.setattr("bench.exports.gguf_files._write", fail)
    with pytest.raises(OSError, match="No space left") as found:
        write_gguf(pruned(llama(2), MASKS["uneven"][2]), like, tmp_path / "out.gguf")
    assert found.value.filename == str(tmp_path / "out.gguf")
    assert {each.name for each in tmp_path.iterdir()} == {"like.gguf"}


def test_what_is_put_there_meanwhile_stays(tmp_path, monkeypatch):
    out, write = tmp_path / "out.gguf", gguf_files._write

    def written_beside(*given):
        write(*given)
        out.write_text("mine")

    like = write_unpruned(tmp_path / "like.gguf", llama(2))
    monkeypatch.setattr(gguf_files, "_write", written_beside)
    with pytest.raises(InputError, match="exists already"):
        write_gguf(pruned(llama(2), MASKS["uneven"][2]), like, out)
    assert out.read_text() == "mine" and {each.name for each in tmp_path.iterdir()} == {"like.gguf", "out.gguf"}


def test_the_verb(tmp_path, capfd, complaint, monkeypatch):
    model = llama(2)
    like = write_unpruned(tmp_path / "like.gguf", model)
    save_pruned(pruned(model, MASKS["an empty layer"][2]), tmp_path / "smaller")
    asked = ["gguf", str(tmp_path / "smaller"), "--like", str(like), "--out", str(tmp_path / "out.gguf")]
    assert main(asked) == 0
    assert capfd.readouterr().out == f"{tmp_path / 'out.gguf'}: deci, 4, 0, 2 heads by layer\n"
    assert "exists already" in complaint(*asked)
    assert "not a complete pruned model" in complaint("gguf", str(tmp_path), *asked[2:5], str(tmp_path / "b.gguf"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr("bench.exports.gguf_files.find_spec", lambda name: None)
    assert "headbench[gguf]" in complaint(*asked)
