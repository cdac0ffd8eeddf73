"""ONNX files beside the checkpoint: written by the verb prune, run where nothing of this project can be imported."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoTokenizer

from methods.heads import load_pruned

TEXTS = ["good film", "a very bad book", "not fine"]
ONNX_RUNTIME = """
import json, onnxruntime
from transformers import AutoTokenizer
folder, texts = sys.argv[1], json.loads(sys.argv[2])
inputs = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="np")
for name in ("model", "model_int8"):
    session = onnxruntime.InferenceSession(f"{folder}/onnx/{name}.onnx")
    print(json.dumps(session.run(["logits"], dict(inputs))[0].tolist()))
"""


def test_files_run_without_this_project_and_the_card_has_their_figures(prune, tmp_path, elsewhere, capsys):
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed; it comes with headbench[onnx]")
    assert prune("--method", "magnitude", "--keep", "2", "--export", "onnx-int8") == 0
    folder = tmp_path / "small"
    with torch.no_grad():
        inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
        ours = load_pruned(folder)(**inputs).logits
    found, int8 = (
        torch.tensor(json.loads(line)) for line in elsewhere(ONNX_RUNTIME, folder, json.dumps(TEXTS)).splitlines()
    )
    torch.testing.assert_close(found, ours, rtol=0, atol=1e-5)
    assert 0 < (int8 - ours).abs().max() < 0.2 * ours.abs().max()  # coarser, but of the same weights
    card = (folder / "README.md").read_text().partition("## ONNX")[2]
    assert "(opset 18) gives the logits of the checkpoint to " in card and "## ONNX" in capsys.readouterr().out
    rows = {cells[0].strip(): cells[1:] for cells in (line.strip("| ").split("|") for line in card.splitlines())}
    accuracy, megabytes = ([float(cell) for cell in rows[name]] for name in ("accuracy (%)", "MB"))
    assert accuracy[0] == accuracy[1] and megabytes[1] > megabytes[2]


def test_missing_packages_are_named_before_anything_is_done(prune, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.exports.onnx_files.NEEDED", ("onnx_of_another_world",))
    monkeypatch.setattr("bench.prune.prune.open_task", None)
    assert prune("--method", "magnitude", "--keep", "2", "--export", "onnx") == 2
    said = capsys.readouterr().err
    assert "--export onnx needs onnx_of_another_world: python -m pip install 'headbench[onnx]'" in said
    assert said.count("\n") == 1 and not (tmp_path / "small").exists()


def test_a_model_that_torch_cannot_trace_is_refused_in_one_line(prune, tmp_path, capsys, monkeypatch):
    def fail(graph, file):
        raise ValueError("a first line\nand another")

    monkeypatch.setattr("bench.prune.prune.check_installed", lambda: None)
    monkeypatch.setattr("bench.exports.onnx_files._write", fail)
    assert prune("--method", "magnitude", "--keep", "2", "--export", "onnx") == 2
    said = capsys.readouterr().err
    assert "torch makes no graph of BertForSequenceClassification (ValueError: a first line)" in said
    assert said.count("\n") == 1 and not (tmp_path / "small").exists() and not list(tmp_path.glob(".small*"))
