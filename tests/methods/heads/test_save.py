"""A saved model must come back bit for bit, also in another process, and a damaged folder must say so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, find_mlps, load_pruned, remove_heads, remove_neurons, save_pruned
from methods.heads.surgery.rebuild import description, neuron_counts, unpruned_neurons
from tests.fixtures.slow import slow_cases
from tests.methods.heads.small_models import build

IN_A_NEW_PROCESS = """
import sys, torch
from methods.heads import load_pruned
torch.set_num_threads(1)
for path, batch, expected in torch.load(sys.argv[1]):
    with torch.no_grad():
        assert torch.equal(load_pruned(path)(**batch).logits, expected), path
"""


def _prune(zoo, model, name="random"):
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))[name])
    keep = {mlp.name: range(index % 3, mlp.width) for index, mlp in enumerate(find_mlps(smaller))}
    return remove_neurons(smaller, keep)


def _check_same(loaded, smaller, batch):
    """Weights are equal, and logits to rounding, which may depend on where in memory the weights lie."""
    state, expected = loaded.state_dict(), smaller.state_dict()
    assert state.keys() == expected.keys() and all(torch.equal(state[name], expected[name]) for name in expected)
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).logits, smaller(**batch).logits, rtol=1e-5, atol=1e-6)


@pytest.mark.typical
def test_saved_models_come_back(zoo, family, tmp_path):
    batch = zoo.batch(family)
    for name in ("random", "no head in the first site", "all kept"):
        smaller = _prune(zoo, zoo.model(family), name)
        path = tmp_path / name
        save_pruned(smaller, path)
        loaded = load_pruned(path)
        _check_same(loaded, smaller, batch)
        assert HeadMap.of(loaded).sites == HeadMap.of(smaller).sites
        fewer = _prune(zoo, loaded)  # goes on where it was left
        save_pruned(fewer, tmp_path / f"{name} again")
        _check_same(load_pruned(tmp_path / f"{name} again"), fewer, batch)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        f"{name}{again}" for name in ("random", "no head in the first site", "all kept") for again in ("", " again")
    )


@pytest.mark.slow
def test_a_pickled_model_without_heads_in_a_layer_runs_in_a_new_process(zoo, tmp_path):
    model, batch = zoo.model("llama"), zoo.batch("llama")
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))["no head in the first site"])
    with torch.no_grad():
        torch.save((smaller, batch, smaller(**batch).logits), tmp_path / "model")
    read = "import sys, torch; model, batch, expected = torch.load(sys.argv[1], weights_only=False)"
    command = [sys.executable, "-c", f"{read}; torch.testing.assert_close(model(**batch).logits, expected)"]
    subprocess.run([*command, str(tmp_path / "model")], check=True, cwd=Path(__file__).parents[3])


def test_a_model_with_several_configurations_for_texts_comes_back(tmp_path):
    model = build("musicgen", narrow=True)
    save_pruned(remove_heads(model, HeadMap.of(model).full_mask()), tmp_path / "model")
    loaded = load_pruned(tmp_path / "model").state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


@pytest.mark.slow
def test_saved_models_come_back_in_a_new_process(zoo, tmp_path):
    expected = []
    for name in ("bert", "gpt2", "phi3", "t5"):
        model, batch = _prune(zoo, zoo.model(name, dtype=torch.bfloat16)), zoo.batch(name)
        save_pruned(model, tmp_path / name)
        with torch.no_grad():
            expected.append((str(tmp_path / name), batch, model(**batch).logits))
    torch.save(expected, tmp_path / "expected")
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, str(tmp_path / "expected")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])


@pytest.mark.parametrize("name", ["llama", "llama-gqa", "qwen3", "mistral"])
def test_uniform_shapes_load_without_us(zoo, name, tmp_path):
    model, batch = zoo.model(name), zoo.batch(name)
    heads = HeadMap.of(model)
    smaller = remove_heads(model, heads.mask({site.name: site_heads(site) for site in heads.sites}), heads)
    smaller = remove_neurons(smaller, {mlp.name: range(11) for mlp in find_mlps(smaller)})
    save_pruned(smaller, tmp_path / "model")
    plain = t.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    with torch.no_grad():
        assert torch.equal(plain(**batch).logits, smaller(**batch).logits)
        assert torch.equal(load_pruned(tmp_path / "model")(**batch).logits, smaller(**batch).logits)


@pytest.mark.parametrize("name", ["bert", "distilbert", *slow_cases("opt", "t5", "bart", "gpt2")])
def test_layers_with_fewer_neurons_load_without_us(zoo, name, tmp_path):
    """Whatever the configuration calls their number."""
    model, batch = zoo.model(name), zoo.batch(name)
    smaller = remove_neurons(model, {mlp.name: range(11) for mlp in find_mlps(model)})
    assert save_pruned(smaller, tmp_path / "model")
    plain = type(model).from_pretrained(tmp_path / "model").eval()
    with torch.no_grad():
        assert torch.equal(plain(**batch).logits, smaller(**batch).logits)
    assert set(neuron_counts(load_pruned(tmp_path / "model")).values()) == {11}
    assert unpruned_neurons(description(smaller)) == neuron_counts(model)


def test_output_embeddings_of_its_own_are_saved_whatever_is_configured(tmp_path, caplog):
    sizes = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4}
    t.LlamaForCausalLM(t.LlamaConfig(intermediate_size=20, **sizes)).save_pretrained(tmp_path / "own")
    path = tmp_path / "own" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_word_embeddings": True}))
    model = t.AutoModelForCausalLM.from_pretrained(tmp_path / "own").eval()
    assert model.lm_head.weight is not model.model.embed_tokens.weight
    heads = HeadMap.of(model)
    text = torch.arange(6).reshape(1, 6)
    for kept in (0, 2):
        smaller = remove_heads(model, torch.arange(4) >= kept, heads)
        assert save_pruned(smaller, tmp_path / str(kept))
        for load in (load_pruned, t.AutoModelForCausalLM.from_pretrained):
            with torch.no_grad():
                assert torch.equal(load(tmp_path / str(kept)).eval()(text).logits, smaller(text).logits)
    assert model.config.tie_word_embeddings


def test_uneven_shapes_do_not_load_without_us_by_mistake(zoo, tmp_path):
    save_pruned(_prune(zoo, zoo.model("bert")), tmp_path / "model")
    with pytest.raises(RuntimeError, match="size"):
        t.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")


def test_generation_settings_are_kept(tmp_path):
    sizes = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = t.LlamaForCausalLM(t.LlamaConfig(intermediate_size=20, tie_word_embeddings=True, **sizes)).eval()
    model.generation_config.update(max_new_tokens=3, temperature=0.5, sequence_bias={(3, 4): 1.0})
    save_pruned(model, tmp_path / "model")
    loaded = load_pruned(tmp_path / "model")
    settings = loaded.generation_config.to_dict() | {"sequence_bias": {(3, 4): 1.0}}
    assert settings == model.generation_config.to_dict()
    assert loaded.generation_config.sequence_bias == [[[3, 4], 1.0]]  # which transformers takes as well
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_a_mixture_of_experts_with_the_same_heads_everywhere_loads_without_us_and_generates_as_before(tmp_path):
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    model = t.MixtralForCausalLM(t.MixtralConfig(num_local_experts=4, num_experts_per_tok=2, **sizes, **heads)).eval()
    model.generation_config.update(max_new_tokens=5, bad_words_ids=[[3]])
    found = HeadMap.of(model)
    smaller = remove_heads(model, found.mask({site.name: site_heads(site) for site in found.sites}), found)
    assert save_pruned(smaller, tmp_path / "model")
    plain = t.AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    text = torch.arange(6).reshape(1, 6)
    with torch.no_grad():
        assert torch.equal(plain(text).logits, smaller(text).logits)
    assert plain.generation_config.bad_words_ids == [[3]]
    assert torch.equal(plain.generate(text, do_sample=False), smaller.generate(text, do_sample=False))


def test_a_configuration_that_computes_the_width_of_heads_cannot_say_that_they_are_fewer(zoo, tmp_path, caplog):
    model = zoo.model("falcon")
    heads = HeadMap.of(model)
    smaller = remove_heads(model, heads.mask({site.name: site_heads(site) for site in heads.sites}), heads)
    assert not save_pruned(smaller, tmp_path / "model")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def site_heads(site):
    """Half of the heads, other ones in every layer: whole groups."""
    first = site.layer % 2 * (site.num_heads // 2)
    return range(first, first + site.num_heads // 2)


# Each fails in a way of its own, in checks of configurations or in the code of models.
WRONG_CONFIGURATIONS = [{"hidden_size": "x"}, {"hidden_size": 25}, {"num_attention_heads": 0}, {"vocab_size": -5}]
WRONG_CONFIGURATIONS += [{"pad_token_id": 1000}]


def test_saving_refuses_what_exists_and_loading_what_is_damaged(zoo, tmp_path):
    model = zoo.model("bert")
    path = tmp_path / "model"
    save_pruned(model, path)
    with pytest.raises(FileExistsError, match="exists already"):
        save_pruned(model, path)
    with pytest.raises(ValueError, match=r"cannot be rebuilt .* pooler"):
        save_pruned(t.BertModel(model.config, add_pooling_layer=False), tmp_path / "without pooler")

    class Mine(t.BertModel):
        pass

    with pytest.raises(ValueError, match="Mine is not a model class of transformers"):
        save_pruned(Mine(model.config), tmp_path / "mine")
    with pytest.raises(ValueError, match="not a complete pruned model"):
        load_pruned(tmp_path / "nowhere")
    model.save_pretrained(tmp_path / "foreign")
    with pytest.raises(ValueError, match="not a complete pruned model"):
        load_pruned(tmp_path / "foreign")
    pruning = json.loads((path / "pruning.json").read_text())
    site = next(iter(pruning["heads"]))
    for damage in (
        {"format": 2},
        {"class": "Trainer"},
        {"heads": {}},
        {"heads": {**pruning["heads"], site: [0, 9]}},
        {"heads": {**pruning["heads"], site: [0]}},
        {"neurons": {}, "config": {}},
        *({"config": {**pruning["config"], **wrong}} for wrong in WRONG_CONFIGURATIONS),
    ):
        (path / "pruning.json").write_text(json.dumps({**pruning, **damage}))
        with pytest.raises(ValueError, match="not a complete pruned model") as error:
            load_pruned(path)
        assert "\n" not in str(error.value)
    (path / "pruning.json").write_text(json.dumps(pruning))
    for name in ("model.safetensors", "buffers.safetensors", "pruning.json"):
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match="not a complete pruned model"):
            load_pruned(path)
        (path / name).write_bytes(content)
    load_pruned(path)


def test_a_number_of_heads_that_the_configuration_refuses(zoo, tmp_path):
    """Llama requires its width to be a multiple of its heads; a smaller model with another number can be saved."""
    config = t.LlamaConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=8, intermediate_size=20
    )
    model = t.LlamaForCausalLM(config).eval()
    heads = HeadMap.of(model)
    smaller = remove_heads(model, torch.arange(len(heads)) % 8 < 5, heads)
    assert not save_pruned(smaller, tmp_path / "small")
    batch = zoo.batch("llama")
    with torch.no_grad():
        assert torch.equal(load_pruned(tmp_path / "small")(**batch).logits, smaller(**batch).logits)


@pytest.mark.typical
def test_a_loaded_model_is_complete(zoo, family, tmp_path):
    smaller = _prune(zoo, zoo.model(family))
    save_pruned(smaller, tmp_path / "small")
    found = load_pruned(tmp_path / "small")
    assert len(list(found.parameters())) == len(list(smaller.parameters()))  # what was tied is tied
    assert not any(tensor.is_meta for tensor in (*found.parameters(), *found.buffers()))
    for module in found.modules():  # nor any tensor that is neither a parameter nor a buffer
        assert not any(isinstance(each, torch.Tensor) and each.is_meta for each in vars(module).values())


@pytest.mark.parametrize("lengths", [(), (40,), (40, 6)], ids=str)
def test_frequencies_that_grew_with_a_text_come_back_as_at_first(lengths, tmp_path):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    sizes = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 50}
    config = t.LlamaConfig(**sizes, num_attention_heads=4, max_position_embeddings=16, rope_parameters=rope)
    torch.manual_seed(0)
    model = t.LlamaForCausalLM(config).eval()
    texts = {length: torch.arange(length)[None] for length in (6, 40)}
    with torch.no_grad():
        expected = {length: model(texts[length]).logits for length in sorted(texts)}
        for length in (6, *lengths):
            model(texts[length])
        save_pruned(model, tmp_path / "saved")
        loaded = load_pruned(tmp_path / "saved")
        for length, logits in expected.items():
            torch.testing.assert_close(loaded(texts[length]).logits, logits, rtol=1e-5, atol=1e-6)


def _renamed(zoo, folder, names):
    """A saved pruned classifier of three classes, whose config.json was edited to name them."""
    save_pruned(_prune(zoo, zoo.model("bert")), folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": names}))
    return folder


def test_classes_have_the_names_of_the_configuration_that_may_be_edited(zoo, tmp_path):
    names = {"0": "no", "1": "maybe", "2": "yes"}
    loaded = load_pruned(_renamed(zoo, tmp_path / "pruned", names))
    assert loaded.config.id2label == {0: "no", 1: "maybe", 2: "yes"}
    assert loaded.config.label2id == {"no": 0, "maybe": 1, "yes": 2}
    save_pruned(loaded, tmp_path / "again")
    assert load_pruned(tmp_path / "again").config.id2label == loaded.config.id2label
    with pytest.raises(ValueError, match=r"config.json names classes \[0, 1\], the model has 3"):
        load_pruned(_renamed(zoo, tmp_path / "two", {"0": "no", "1": "yes"}))
