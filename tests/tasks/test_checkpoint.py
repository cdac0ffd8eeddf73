"""Models from folders: labels matched, lengths kept to, and only what was never trained drawn at random."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertModel, BloomConfig, LiltConfig, MarkupLMConfig, MptConfig, RobertaConfig
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from tasks.errors import TaskError
from tasks.models import checkpoint, classifiers


@pytest.fixture
def folder(tmp_path, tiny_model):
    return shutil.copytree(tiny_model, tmp_path / "model")


def test_a_tokenizer_cuts_where_the_positions_of_the_model_end(folder):
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("model_max_length")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert checkpoint.load_tokenizer(folder).model_max_length == 32
    BloomConfig().save_pretrained(folder)
    assert checkpoint.load_tokenizer(folder).model_max_length == VERY_LARGE_INTEGER  # which lm-eval knows for none
    for config in (RobertaConfig, MarkupLMConfig, LiltConfig):  # which count from the padding token
        config(max_position_embeddings=34, pad_token_id=1).save_pretrained(folder)
        assert checkpoint.load_tokenizer(folder).model_max_length == 32
    MptConfig(max_seq_len=24).save_pretrained(folder)
    assert checkpoint.load_tokenizer(folder).model_max_length == 24


@pytest.mark.parametrize(("stated", "taken"), [(16.0, 16), (3, 3), (1e30, 32)])
def test_a_length_may_be_written_as_a_number_of_any_kind(folder, stated, taken):
    change_length(folder, stated)
    assert checkpoint.load_tokenizer(folder).model_max_length == taken


@pytest.mark.parametrize("stated", ["512", -1, 0, 2, 16.5, True, [16]])
def test_a_length_that_no_text_fits_into_is_refused(folder, stated):
    change_length(folder, stated)
    with pytest.raises(TaskError) as raised:
        checkpoint.load_tokenizer(folder)
    said = f"model_max_length {stated!r}: expected a number of tokens from 3 on"
    assert str(raised.value) == f"{folder}: tokenizer_config.json: {said}"


def change_length(folder: Path, stated: object) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": stated}))


def test_a_head_for_other_labels_is_drawn_from_the_seed_and_the_body_is_kept(folder):
    tokenizer = checkpoint.load_tokenizer(folder)
    body = BertModel.from_pretrained(folder).state_dict()
    state = torch.get_rng_state()
    one, same, other = (
        classifiers.load_for_training(folder, ("a", "b", "c"), tokenizer, seed).state_dict() for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one["bert." + name], weight) for name, weight in body.items())
    assert one["classifier.weight"].shape == (3, 32)
    assert torch.equal(one["classifier.weight"], same["classifier.weight"])
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


def test_what_is_no_file_is_not_read(folder):
    os.mkfifo(folder / "merges.txt")  # reading one never ends
    assert folder / "merges.txt" not in checkpoint.weight_files(folder)
    assert folder / "config.json" in checkpoint.weight_files(folder)
