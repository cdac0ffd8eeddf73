"""The verb prune on tiny models, and programs run where nothing of this project can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForSequenceClassification,
)

from bench.__main__ import main
from bench.prune import times
from tests.fixtures.classifiers import save_classifier

WITHOUT_US = "import sys\nsys.modules |= dict.fromkeys(('bench', 'methods', 'tasks'))  # cannot be imported\n"


@pytest.fixture
def prune(place, tiny_model, tmp_path, monkeypatch):
    """Run the verb on the tiny model, or on another one, into a folder below ``tmp_path``; its exit code.

    It times models with fewer repeats than usual, as these take most of the time of tiny ones.
    """
    monkeypatch.setattr(times, "REPEATS", 5)

    def run(*flags: str, out: str = "small", model=tiny_model) -> int:
        own = ("--task", "classification", "--model", str(model), "--data", str(place.data), "--device", "cpu")
        return main(["prune", *own, "--out", str(tmp_path / out), *flags])

    return run


@pytest.fixture
def tiny_qwen(tiny_model, tmp_path):
    """A folder with a random Qwen3 classifier (2 layers, 2 KV groups of 2 heads) and its tokenizer."""
    return save_uneven(Qwen3Config, Qwen3ForSequenceClassification, tiny_model, tmp_path / "whole")


@pytest.fixture
def tiny_llama(tiny_model, tmp_path):
    """The same as a Llama."""
    return save_uneven(LlamaConfig, LlamaForSequenceClassification, tiny_model, tmp_path / "whole")


def save_uneven(config_class, model_class, tiny_model: Path, folder: Path) -> Path:
    """Save a random classifier, one of whose layers a method that looks at weights empties before the other."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = partial(config_class, intermediate_size=16, head_dim=8, pad_token_id=0, **sizes)
    return save_classifier(folder, tiny_model, model_class, config, enlarge_the_second_layer)


@torch.no_grad()
def enlarge_the_second_layer(model: PreTrainedModel) -> None:
    for name, weight in model.named_parameters():
        if name.endswith("proj.weight"):
            weight.normal_(std=0.2 * (1 + name.startswith("model.layers.1.")))


@pytest.fixture
def elsewhere(tmp_path) -> Callable[..., str]:
    """Run Python code in a new process that can import nothing of this project; what it prints."""

    def run(code: str, *arguments: str | Path) -> str:
        command = [sys.executable, "-c", WITHOUT_US + code, *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        return done.stdout

    return run
