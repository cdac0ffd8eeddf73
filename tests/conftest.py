"""Fixtures that several rooms share: a tiny model and data set on disk, and where real data is, if anywhere."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from tasks.builtin import abilities, decoder

pytest_plugins = ("tests.fixtures.gpus", "tests.fixtures.runs", "tests.fixtures.translation")

# No test may fail as the machine has other work, or by luck of the draw: --hypothesis-profile=default draws anew.
settings.register_profile("headbench", deadline=None, derandomize=True)
settings.load_profile("headbench")

WORDS = ("good", "bad", "fine", "poor", "film", "book", "very", "not", "the", "a", "was", "is")


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs on one machine measure latency in turn; those of other test processes must not make these wait."""
    folder = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets and weights; skips where HEADBENCH_DATA does not name one."""
    folder = os.environ.get("HEADBENCH_DATA", "")
    if not folder:
        pytest.skip("HEADBENCH_DATA is not set: it names the folder with the real data sets and weights")
    return Path(folder)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSONL file of 200 short texts with the labels negative and positive."""
    path = tmp_path_factory.mktemp("data") / "tiny.jsonl"
    draw = random.Random(0)
    rows = [
        {
            "text": " ".join(draw.choices(WORDS, k=draw.randint(3, 9))) + f" {number}",
            "label": draw.choice(["negative", "positive"]),
        }
        for number in range(200)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT classifier (2 layers, 4 heads each) and its tokenizer, labels as in ``tiny_data``."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    vocabulary = {word: place for place, word in enumerate((*special, *WORDS, *map(str, range(200))))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=32,
    )
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=32,
        initializer_range=0.5,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForSequenceClassification(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small Llama (4 layers, 4 KV groups of 2 heads), untrained, and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    tokenizer, model = decoder.build(abilities.documents()["train"], 0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts that the small Llama's tokenizer knows the words of: 40 to train on, 12 to test on."""
    folder = tmp_path_factory.mktemp("texts") / "tiny"
    folder.mkdir()
    for split, size in (("train", 40), ("test", 12)):
        texts = [document.text for document in abilities.documents()[split][:size]]
        (folder / f"{split}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return folder


@pytest.fixture
def complaint(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give the command these arguments; the one line on standard error that it ends with, and nothing written."""
    from bench.__main__ import main

    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = exit.code
        errors = capfd.readouterr().err
        assert code == 2, errors
        assert errors.startswith("headbench: error: ") and errors.count("\n") == 1 and errors.endswith("\n"), errors
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
        return errors.removeprefix("headbench: error: ").rstrip("\n")

    return run
