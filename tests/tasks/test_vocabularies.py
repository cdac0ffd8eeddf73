"""Models from the hub come with every file that their tokenizer needs, and with none that could run code."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path, PurePath

import pytest
import sentencepiece
import transformers
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from tasks.models.vocabularies import PATTERNS, locate, model_files
from tasks.request import TaskSpec
from tasks.translation import Translation

SENTENCES = ("the cat sleeps", "a dog barks at the cat", "rain falls on the old house")


@pytest.fixture
def marian(tmp_path, tiny_marian) -> Path:
    """A Marian model with the vocabularies of Marian's own tokenizer, a pickle and a Python file."""
    folder = tmp_path / "marian"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(tiny_marian / name, folder)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20), model_writer=written, vocab_size=40, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    vocabulary = ["</s>", "<unk>", *(pieces.id_to_piece(n) for n in range(3, pieces.get_piece_size())), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(vocabulary)}))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(written.getvalue())
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "hu"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    for name in ("pytorch_model.bin", "modeling.py"):
        (folder / name).write_bytes(b"what must never be loaded")
    return folder


@pytest.fixture
def hub(monkeypatch, tmp_path, marian):
    """A hub with one model, ``org/marian``; its downloads go to one folder, as those of one revision do."""
    cache = tmp_path / "snapshot"

    def download(name: str, allow_patterns: list[str]) -> str:
        assert name == "org/marian"
        cache.mkdir(exist_ok=True)
        for file in marian.iterdir():
            if any(PurePath(file.name).match(pattern) for pattern in allow_patterns):
                shutil.copy(file, cache)
        return str(cache)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    return cache


def test_every_vocabulary_of_a_tokenizer_is_fetched():
    names = {
        name
        for found in TOKENIZER_MAPPING_NAMES.values()
        for each in (found if isinstance(found, (tuple, list)) else (found,))
        if each
        for name in (getattr(getattr(transformers, each, None), "vocab_files_names", None) or {}).values()
    }
    assert len(names) > 10
    missing = {name for name in names if not any(PurePath(name).match(pattern) for pattern in PATTERNS)}
    assert {name for name in missing if not name.endswith((".pkl", ".bin"))} == set()


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_marian_model_of_the_hub_has_its_vocabularies(hub, marian, tiny_pairs):
    folder = locate("org/marian")
    assert folder == hub and {path.name for path in model_files(folder)} == {path.name for path in folder.iterdir()}
    assert not list(folder.glob("*.bin")) and not list(folder.glob("*.py"))
    task = Translation(
        TaskSpec(task="translation", model="org/marian", data=str(tiny_pairs), text=("en", "hu"), limit=4)
    )
    expected = transformers.MarianTokenizer.from_pretrained(marian)
    assert task._opened(folder)[0]("the cat").input_ids == expected("the cat").input_ids
    before = task.fingerprints(0)["model"]["weights"]
    (folder / "source.spm").write_bytes(b"another vocabulary")
    assert task.fingerprints(0)["model"]["weights"] != before
