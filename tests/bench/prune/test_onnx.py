"""ONNX files beside the checkpoint: written by the verb prune, run where nothing of this project can be imported."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from bench.__main__ import main
from bench.exports import runner
from bench.exports.onnx_files import write_onnx
from bench.exports.runner import in_place_of
from bench.records.errors import InputError
from methods.heads import load_pruned
from tasks.text_classification import TextClassification
from tasks.translating import scores

DOES_NOT_RUN = "ONNX Runtime does not run the files (RuntimeError: too large): leave"
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


def fail(*_, **__):
    raise RuntimeError("too large\nfor this")


@pytest.fixture
def onnx():
    """Skips where ONNX files cannot be written and run."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed; it comes with headbench[onnx]")


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("written") / "onnx"


@pytest.fixture
def written_once(kept, monkeypatch):
    """Files of one model are copied in the tests after the first, as its graph takes seconds to make."""

    def write(model, names, folder):
        if not kept.exists():
            write_onnx(model, names, kept)
        shutil.copytree(kept, folder)
        return list(folder.glob("*.onnx"))

    monkeypatch.setattr("bench.prune.onnx.write_onnx", write)


@pytest.mark.usefixtures("onnx", "written_once")
def test_files_run_without_this_project_and_the_card_has_their_figures(prune, tmp_path, elsewhere, capsys):
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
    assert "(opset 18) gives the logits of the checkpoint in float32 to " in card
    assert "## ONNX" in capsys.readouterr().out
    rows = {cells[0].strip(): cells[1:] for cells in (line.strip("| ").split("|") for line in card.splitlines())}
    accuracy, megabytes = ([float(cell) for cell in rows[name]] for name in ("accuracy (%)", "MB (2^20 bytes)"))
    assert accuracy[0] == accuracy[1] and megabytes[1] > megabytes[2]


@pytest.mark.slow
def test_the_files_of_a_translation_model_translate_as_its_checkpoint(tiny_marian, tiny_pairs, tmp_path, onnx):
    own = ["--task", "translation", "--model", tiny_marian, "--data", tiny_pairs, "--text", "en,hu", "--limit", 8]
    flags = [
        "--method",
        "magnitude",
        "--keep",
        "50%",
        "--export",
        "onnx",
        "--device",
        "cpu",
        "--out",
        tmp_path / "small",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.translating.generate.PER_TOKEN", 0)  # random models do not end by themselves
        patch.setattr(scores, "outcomes", kept := Kept(scores.outcomes))
        assert main(["prune", *map(str, (*own, *flags))]) == 0
    *_, checkpoint, files = kept.translations
    assert files == checkpoint and len(set(files)) > 1
    card = (tmp_path / "small" / "README.md").read_text().partition("## ONNX")[2]
    bleu = re.search(r"BLEU \(%\) *\|([^|]+)\|([^|]+)\|", card)
    assert float(bleu[1]) == float(bleu[2])


class Kept:
    """``outcomes``, which keeps the translations that it is given."""

    def __init__(self, outcomes) -> None:
        self.outcomes, self.translations = outcomes, []

    def __call__(self, name, translations, *others):
        self.translations.append(translations)
        return self.outcomes(name, translations, *others)


@pytest.mark.parametrize(
    ("broken", "by", "export", "said"),
    [
        ("bench.prune.onnx.runner_gap", lambda *_: 2e-5, "onnx", "differ by 2.0e-05 of their scale, by more than"),
        ("bench.prune.onnx.runner_gap", lambda *_: float("nan"), "onnx", "differ by nan of their scale"),
        ("onnxruntime.InferenceSession", fail, "onnx", DOES_NOT_RUN),
        (
            "onnxruntime.quantization.quantize_dynamic",
            fail,
            "onnx-int8",
            "does not quantise model.onnx (RuntimeError: too large): use",
        ),
    ],
    ids=["gap", "not finite", "load", "quantise"],
)
@pytest.mark.usefixtures("onnx", "written_once")
def test_what_cannot_be_exported_is_told_in_one_line(broken, by, export, said, prune, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(broken, by)
    assert prune("--method", "magnitude", "--keep", "2", "--export", export) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "small").exists() and not list(tmp_path.glob(".small*"))


@pytest.mark.usefixtures("onnx", "written_once")
def test_quantised_files_that_overflow_are_told_in_one_line(prune, tmp_path, capsys, monkeypatch):
    evaluate, twins = TextClassification.evaluate, []

    def kept(model, runner):
        twins.append(in_place_of(model, runner))
        return twins[-1]

    def overflows(task, model):
        if model in twins[1:]:
            raise FloatingPointError("logits are not finite")
        return evaluate(task, model)

    monkeypatch.setattr("bench.prune.onnx.in_place_of", kept)
    monkeypatch.setattr(TextClassification, "evaluate", overflows)
    assert prune("--method", "magnitude", "--keep", "2", "--export", "onnx-int8") == 2
    assert capsys.readouterr().err == (
        "headbench: error: --export onnx-int8: the quantised files give logits that are not finite: use --export onnx\n"
    )
    assert len(twins) == 2 and not (tmp_path / "small").exists()


def test_files_that_do_not_run_are_told_in_one_line():
    class Session:
        def get_outputs(self):
            return []

        run = fail

    with pytest.raises(InputError, match=r"^--export: .* \(RuntimeError: too large\): leave --export out$"):
        runner._run(Session(), {})


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
