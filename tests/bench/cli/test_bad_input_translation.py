"""Translation models and pairs that cannot be used end the command in one line, with nothing written."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from methods.heads.surgery.save import PRUNING
from tests.fixtures.translation import save_family


@pytest.fixture
def refused(complaint, tiny_marian, tiny_pairs, tmp_path):
    def run(*flags: object, model: object = tiny_marian, data: object = tiny_pairs, text: str = "en,hu") -> str:
        own = ["--task", "translation", "--data", data, "--text", text, "--out", tmp_path / "out"]
        own += ["--model", model] if model else []
        return complaint("run", *own, "--methods", "none", "--seeds", 1, "--jobs", 1, *flags)

    return run


def pairs(path, *rows):
    some = [{"en": f"{number} grams", "hu": f"{number} gramm"} for number in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in (*some, *rows)), encoding="utf-8")
    return path


def test_a_column_that_is_missing(refused, tiny_pairs):
    assert refused(text="en,de") == f"{tiny_pairs}: line 1: no column 'de'; it has 'en', 'hu': give --text COLUMN"
    assert refused(text="en") == "--text en: expected two columns, SOURCE,TARGET"


def test_a_language_that_is_missing_in_the_column_translation(refused, tmp_path):
    path = tmp_path / "nested.jsonl"
    path.write_text(json.dumps({"translation": {"en": "a", "hu": "b"}}) + "\n", encoding="utf-8")
    said = refused(data=path, text="en,de")
    assert said == f"{path}: line 1: translation: no column 'de'; it has 'en', 'hu': give --text COLUMN"


@pytest.mark.parametrize("empty", ["", " ", None])
def test_an_empty_target(refused, tmp_path, empty):
    path = pairs(tmp_path / "pairs.jsonl", {"en": "one", "hu": empty})
    assert refused(data=path) == f"{path}: line 31: column 'hu' is empty"


def test_codes_of_languages_where_there_is_no_choice(refused, tiny_marian):
    said = refused("--languages", "en,hu")
    assert said == f"{tiny_marian}: --languages en,hu: it has no languages to choose from: leave the flag out"
    assert refused("--languages", "en,hu", model=None) == (
        "--languages en,hu: the small model has no languages to choose"
    )


def test_a_decoder_on_its_own(refused, tmp_path):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    folder = tmp_path / "llama"
    LlamaForCausalLM(LlamaConfig(vocab_size=9, **sizes)).save_pretrained(folder)
    assert refused(model=folder) == (
        f"{folder}: llama is not an encoder with a decoder, so it has nothing to translate from; for a language model "
        "use --task harness"
    )


@pytest.mark.parametrize(
    ("missing", "meaning"),
    [
        ("decoder_start_token_id", "with which decoding begins"),
        ("eos_token_id", "with which a translation ends"),
    ],
)
def test_a_model_that_does_not_say_where_translations_begin_and_end(refused, tmp_path, missing, meaning):
    folder = save_family("bart", tmp_path / "model")
    for name in ("config.json", "generation_config.json"):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | {missing: None}))
    assert refused(model=folder) == f"{folder}: config.json has no {missing}, {meaning}"


def test_a_part_without_weights(refused, tmp_path):
    folder = save_family("marian", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    lost = weights.pop("model.decoder.layers.0.fc1.weight")
    assert lost.dim() == 2
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert refused(model=folder) == (
        f"{folder}: the weights do not match config.json: none of the right shape for model.decoder.layers.0.fc1.weight"
    )


def test_a_pruned_model_that_is_not_complete(refused, tmp_path):
    folder = save_family("t5", tmp_path / "model")
    (folder / PRUNING).write_text("{}")
    assert refused(model=folder).startswith(f"{folder} is not a complete pruned model: ")


def test_a_tokenizer_of_another_model(refused, tmp_path, tiny_model):
    folder = save_family("t5", tmp_path / "model")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"] += [{**tokenizer["added_tokens"][0], "id": 5000, "content": "grams"}]
    tokenizer["model"]["vocab"]["grams"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    said = refused(model=folder, data=pairs(tmp_path / "pairs.jsonl"))
    assert said.startswith(f"{folder}: the tokenizer gives a source token id 5000, the model has ")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--label", "hu"], "translation: --label has no meaning for translation: leave it out"),
        (["--dtype", "bfloat16"], "translation: --dtype has no meaning for translation: leave it out"),
        (["--label-smoothing", "1.5"], "--label-smoothing 1.5: expected a number, at least 0, below 1"),
        (["--languages", "en"], "--languages en: expected two codes, SOURCE,TARGET"),
    ],
)
def test_flags_that_make_no_sense(refused, flags, expected):
    assert refused(*flags) == expected


@pytest.mark.parametrize("flag", [["--beams", "3"], ["--languages", "en,de"], ["--label-smoothing", "0.1"]])
def test_flags_of_translation_go_with_no_other_task(complaint, tiny_data, tiny_model, flag):
    said = complaint("run", "--task", "classification", "--model", tiny_model, "--data", tiny_data, *flag)
    assert said == f"{flag[0]} is for --task translation"


def test_kinds_of_attention_that_are_not_there(refused, complaint, tiny_model, tiny_data):
    assert refused("--kinds", "encoder,self") == ("--kinds 'encoder,self': expected some of encoder, decoder, cross")
    assert refused("--kinds", "encoder,,cross") == "--kinds 'encoder,,cross': expected KIND, or KIND,KIND"
    own = ["--task", "classification", "--model", tiny_model, "--data", tiny_data, "--kinds", "cross"]
    for verb in (["run", "--methods", "none"], ["prune", "--method", "michel", "--keep", "0.5", "--out", "smaller"]):
        assert complaint(*verb, *own) == "BertForSequenceClassification has no cross attention, only encoder"
