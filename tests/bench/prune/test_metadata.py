"""What the hub reads of a card, and the command that it names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from bench.__main__ import main
from bench.cli.arguments import parse
from bench.cli.requests import own_task
from bench.prune.metadata import command, hub_id
from bench.prune.options import PruneOptions
from bench.suites.parse import parse_methods
from tasks.request import TaskSpec


def test_the_hub_reads_the_card(prune, tmp_path, tiny_data):
    assert prune("--method", "michel", "--keep", "0.5") == 0
    data = ModelCard.load(tmp_path / "small" / "README.md").data
    assert (data.library_name, data.pipeline_tag, data.model_name) == ("headbench", "text-classification", "small")
    assert {"pruned", "attention-head-pruning", "michel"} <= set(data.tags) and "onnx" not in data.tags
    assert data.base_model is None and data.datasets is None  # folders of the user are no ids of the hub
    (result,) = data.eval_results
    card = (tmp_path / "small" / "README.md").read_text()
    accuracy = float(re.search(r"accuracy \(%\) *\| +[\d.]+ +\| +([\d.]+)", card)[1])
    assert (result.task_type, result.metric_type, result.dataset_split) == ("text-classification", "accuracy", None)
    assert round(100 * result.metric_value, 1) == accuracy


def test_the_hub_reads_what_a_translation_model_is_and_how_good(tiny_marian, tiny_pairs, tmp_path):
    """huggingface_hub's own classes read and check it; ``ModelCard.validate`` would ask the hub, over the network."""
    own = ["--task", "translation", "--model", tiny_marian, "--data", tiny_pairs, "--text", "en,hu", "--limit", 8]
    flags = ["--method", "magnitude:allocation=layer", "--keep", "50%", "--device", "cpu", "--out", tmp_path / "small"]
    assert main(["prune", *map(str, (*own, *flags))]) == 0
    data = ModelCard.load(tmp_path / "small" / "README.md").data
    assert (data.pipeline_tag, data.metrics) == ("translation", ["bleu", "chrf"]) and "magnitude" in data.tags
    bleu, chrf = data.eval_results
    card = (tmp_path / "small" / "README.md").read_text()
    shown = {
        name: float(re.search(rf"{name} *\| +[\d.e-]+ +\| +([\d.e-]+)", card)[1])
        for name in (r"BLEU \(%\)", "tiny/chrf")
    }
    assert (bleu.task_type, bleu.metric_type, chrf.metric_type) == ("translation", "bleu", "chrf")
    assert bleu.metric_value == pytest.approx(shown[r"BLEU \(%\)"], abs=0.051)
    assert chrf.metric_value == pytest.approx(100 * shown["tiny/chrf"], abs=0.051) and chrf.metric_value > 0


def test_a_checkpoint_that_transformers_loads_says_so(prune, tiny_qwen, tmp_path):
    assert prune("--method", "magnitude", "--keep", "0.5", "--uniform", model=tiny_qwen) == 0
    assert ModelCard.load(tmp_path / "small" / "README.md").data.library_name == "transformers"


@pytest.mark.parametrize(
    ("flags", "method"),
    [
        (("--method", "michel", "--keep", "0.5"), "michel"),
        (
            (
                "--method",
                "michel:layer_norm=false",
                "--recover",
                "scale",
                "--keep",
                "3",
                "--seed",
                "4",
                "--limit",
                "60",
            ),
            "michel:layer_norm=false,recover=scale",
        ),
    ],
)
def test_the_command_of_the_card_asks_for_the_same(prune, tmp_path, flags, method):
    assert prune(*flags) == 0
    card = (tmp_path / "small" / "README.md").read_text()
    again = parse(shlex.split(re.search(r"## Make it again\n\n```\nheadbench (.*)\n```", card)[1]))
    asked = parse(["prune", "--task", "classification", "--out", "small", *flags])
    assert (again.method, again.model, again.data) == (method, "tiny-bert", "tiny.jsonl")
    for name in ("task", "keep", "seed", "calibration", "calibration_from", "training", "uniform", "export"):
        assert getattr(again, name) == getattr(asked, name), name


def test_the_command_has_every_option_that_is_not_the_usual_one():
    (method,) = parse_methods("magnitude")
    task = TaskSpec(task="classification", model="org/model", data="org/data")
    options = PruneOptions(
        task, method, "4", Path("small"), 3, 64, "train", 0.5, "cpu", uniform=True, export="onnx-int8"
    )
    again = parse(shlex.split(command(options))[1:])
    found = [again.keep, again.seed, again.calibration, again.calibration_from, again.training]
    assert found == ["4", 3, 64, "train", 0.5] and (again.uniform, again.export) == (True, "onnx-int8")


def test_the_card_says_which_words_of_the_command_are_paths(prune, tmp_path, tiny_model, tiny_data):
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "tiny").symlink_to(tiny_model)
    flags = ("--method", "magnitude", "--keep", "0.5")
    assert prune(*flags) == 0
    assert prune(*flags, "--mirror", str(tmp_path / "copies"), out="mirrored", model="org/tiny") == 0
    cards = [(tmp_path / name / "README.md").read_text() for name in ("small", "mirrored")]
    said = "Local files and folders, to be given with their paths: `--data tiny.jsonl`, "
    assert cards[0].endswith(f"\n\n{said}`--model tiny-bert`.\n")
    assert cards[1].endswith(f"\n\n{said}`--mirror copies`.\n") and "--model org/tiny " in cards[1]
    assert not any(str(each) in card for card in cards for each in (tmp_path, tiny_model.parent, tiny_data.parent))


def test_odd_names_of_columns_and_folders_are_given_as_they_were(prune, tmp_path, tiny_data, monkeypatch):
    rows = [json.loads(line) for line in tiny_data.read_text().splitlines()]
    odd = [{'a, "b"': row["text"], "-label": row["label"]} for row in rows]
    (tmp_path / "odd<b>.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    monkeypatch.chdir(tmp_path)
    columns = ("--data", "odd<b>.jsonl", "--text", '"a, ""b"""', "--label=-label")
    assert prune("--method", "magnitude", "--keep", "0.5", *columns, "--out=-small") == 0
    card = Path("-small/README.md").read_text()
    assert r"Pruned for classification on odd\<b\>" in card
    again = parse(shlex.split(re.search(r"\nheadbench (prune.*)\n", card)[1]))
    asked = own_task(again)
    assert (asked.text, asked.label, again.out) == (('a, "b"',), "-label", Path("-small"))


def test_a_file_with_a_colon_in_its_name_is_no_data_set_of_the_hub(prune, tmp_path, tiny_data, monkeypatch):
    (tmp_path / "reviews:2024.jsonl").write_bytes(tiny_data.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert prune("--method", "magnitude", "--keep", "0.5", "--data", "reviews:2024.jsonl") == 0
    data = ModelCard.load(tmp_path / "small" / "README.md").data
    assert data.datasets is None and data.eval_results[0].dataset_type == "reviews:2024"


@pytest.mark.parametrize(
    ("model", "method", "given"),
    [("org/m", "michel", False), ("org/m", "dsp-joint", True), ("", "michel", True)],
)
def test_the_device_is_in_the_command_where_something_is_trained_on_it(model, method, given):
    asked = TaskSpec(task="classification", model=model, data="org/d" if model else "")
    (spec,) = parse_methods(method)
    options = PruneOptions(asked, spec, "4", Path("small"), 0, 128, "held-out", 1.0, "cpu")
    assert command(options).endswith(" --keep 4 --device cpu --out small") == given


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("org/name", "org/name"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("", None),
        ("./folder", None),
        ("/folder/of/mine", None),
        ("pypi:package", None),
        ("a b", None),
    ],
)
def test_only_ids_of_the_hub_are_named_as_such(name, found):
    assert hub_id(name) == found
