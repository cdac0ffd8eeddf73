"""Models that cannot be used end the command in one line, before anything is trained or run."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    BertModel,
    FNetConfig,
    FNetForSequenceClassification,
    ViTConfig,
)

from bench.__main__ import main

NAMES = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}


@pytest.fixture
def folder(tmp_path, tiny_model):
    """A copy of the tiny model, for a test to break."""
    return shutil.copytree(tiny_model, tmp_path / "broken")


@pytest.fixture
def refused(complaint, tiny_data, tmp_path):
    def run(model: object, *flags: object) -> str:
        own = ["--task", "classification", "--data", tiny_data, "--model", model, "--out", tmp_path / "out"]
        return complaint("run", *own, "--methods", "none", "--jobs", 1, *flags)

    return run


def settings(folder, **changed) -> None:
    """Change config.json; None takes a key out."""
    content = json.loads((folder / "config.json").read_text()) | changed
    (folder / "config.json").write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


@pytest.mark.parametrize("model", ["/no/where", "./nowhere", "a/b/c"])
def test_a_folder_that_is_not_there(refused, model):
    assert refused(model) == f"{model}: no such folder"


def test_a_folder_without_config(refused, folder):
    (folder / "config.json").unlink()
    assert refused(folder) == f"{folder}: not a model folder: no config.json in it"


@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_is_not_mixed_into_the_model_beside_it(refused, folder, whole):
    (folder / "adapter_config.json").write_text("{}")
    if not whole:
        (folder / "config.json").unlink()
    assert refused(folder) == (
        f"{folder}: holds a PEFT adapter (adapter_config.json): merge it into its model (merge_and_unload) and save "
        "that alone"
    )


def test_a_file_is_no_folder(refused, tiny_data):
    assert "not a model folder" in refused(tiny_data)


def test_pickled_weights_are_not_opened(refused, folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "no .safetensors weights in it; convert other formats first" in refused(folder)


@pytest.mark.parametrize("size", [0, 1000, -1000])
@pytest.mark.parametrize("flags", [(), ("--finetune",)])
def test_truncated_weights(refused, folder, size, flags):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert f"{folder}: the weights cannot be loaded: " in refused(folder, *flags)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"model_type": "no-such-type"}'])
def test_a_config_of_nothing_known(refused, folder, content):
    (folder / "config.json").write_text(content)
    assert f"{folder}: config.json cannot be read: " in refused(folder)


@pytest.mark.parametrize("flags", [(), ("--finetune",)])
@pytest.mark.parametrize("change", [{"hidden_size": 64}, {"num_hidden_layers": 3}, {"vocab_size": 99}])
def test_a_config_of_other_weights(refused, folder, change, flags):
    settings(folder, **change)
    assert f"{folder}: the weights do not match config.json: none of the right shape for bert." in refused(
        folder, *flags
    )


@pytest.mark.parametrize("flags", [(), ("--finetune",)])
@pytest.mark.parametrize("left", ["a layer", "a bias"])
def test_weights_that_the_config_has_no_place_for(refused, folder, left, flags):
    if left == "a layer":
        settings(folder, num_hidden_layers=1)
        name = "bert.encoder.layer.1.attention.output.LayerNorm.bias"
    else:
        weights = load_file(folder / "model.safetensors")
        name = "bert.embeddings.word_embeddings.bias"
        save_file(
            weights | {name: torch.ones(3), "cls.seq_relationship.weight": torch.ones(3)},
            folder / "model.safetensors",
            {"format": "pt"},
        )
    assert f"{folder}: the weights do not match config.json: it has no place for {name}, " in refused(folder, *flags)


def test_a_model_that_is_no_text_classifier(refused, folder):
    ViTConfig().save_pretrained(folder)
    assert "transformers has no sequence classifier for it" in refused(folder)


def test_a_model_without_attention(refused, folder):
    config = FNetConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, intermediate_size=48, **NAMES)
    FNetForSequenceClassification(config).save_pretrained(folder)
    said = refused(folder)
    assert said.startswith(
        "FNetForSequenceClassification has no attention module with known projections, so no head can"
    )
    assert "use a model of a type that docs/heads.md lists as supported" in said and len(said) < 300


def test_a_model_without_a_tokenizer(refused, folder):
    for file in folder.glob("token*"):
        file.unlink()
    assert f"{folder}: no tokenizer in it: expected tokenizer.json" in refused(folder)


def test_a_broken_tokenizer(refused, folder):
    (folder / "tokenizer.json").write_text("{")
    assert f"{folder}: no usable tokenizer: " in refused(folder)


def test_a_tokenizer_with_more_tokens_than_the_model(refused, folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["film"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "the tokenizer gives token id 5000, the model has 216 tokens: they do not belong together" in refused(folder)


@pytest.mark.parametrize("flags", [(), ("--finetune",)])
def test_a_tokenizer_with_more_types_of_tokens_than_the_model(refused, folder, tmp_path, flags):
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    types = model.bert.embeddings.token_type_embeddings
    types.weight.data, model.config.type_vocab_size = types.weight.data[:1].clone(), 1
    model.save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    rows = [{"a": f"film {n}", "b": "good", "label": ["negative", "positive"][n % 2]} for n in range(99)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = ["--data", tmp_path / "pairs.jsonl", "--text", "a,b"]
    assert f"{folder}: the tokenizer gives token type 1, the model has 1 token type: they do not" in refused(
        folder, *pairs, *flags
    )


def test_an_encoder_without_a_head_asks_to_be_trained_and_then_is(refused, folder, place):
    BertModel.from_pretrained(folder).save_pretrained(folder)
    assert "no trained weights for classifier.bias, classifier.weight: add --finetune" in refused(folder)
    own = ["--task", "classification", "--data", place.data, "--model", folder, "--out", place.out, "--finetune"]
    usual = ["--methods", "none", "--seeds", 1, "--levels", 0.5, "--jobs", 1, "--device", "cpu", "--limit", 40]
    assert main(["run", *map(str, own), *map(str, usual)]) == 0


def test_labels_are_matched_by_name_and_those_that_are_missing_are_named(refused, folder):
    settings(folder, id2label={"0": "POSITIVE", "1": "bad"}, label2id=None)
    said = refused(folder)
    assert (
        "the model has no label 'negative'; available: POSITIVE, bad; rename the labels of the data, or add --fin"
        in said
    )


def test_a_text_longer_than_the_model_has_positions_for_is_cut(folder, place, tmp_path):
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer.pop("model_max_length")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    long = tmp_path / "long.jsonl"
    rows = [{"text": f"film {number} " * 60, "label": ["negative", "positive"][number % 2]} for number in range(60)]
    long.write_text("".join(json.dumps(row) + "\n" for row in rows))
    place.model, place.data = folder, long
    assert place.run("--methods", "none") == 0
    assert place.run("--methods", "none", "--finetune") == 0


@pytest.mark.parametrize("layout", ["org/name", "org--name", "name"])
def test_an_id_is_found_in_a_mirror_however_that_lays_it_out(tiny_model, place, tmp_path, layout):
    shutil.copytree(tiny_model, tmp_path / "mirror" / layout)
    place.model = "org/name"
    assert place.run("--methods", "none", "--mirror", str(tmp_path / "mirror")) == 0
    assert [path.name for path in (place.out / "records").iterdir()] == ["classification.tiny.name"]
