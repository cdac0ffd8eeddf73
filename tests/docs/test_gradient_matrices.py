"""The study of gradient matrices: against ``gnorm``, which does not form them, and against weights' own gradients."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from methods.checks.tiny import ARCHITECTURES, Tiny
from methods.gnorm import gnorm
from methods.heads.surgery.shrink import shrink, working_copy
from tests.docs.documents import ROOT

STUDIES = ROOT / "docs" / "studies"
TINY = Tiny()


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    spec = importlib.util.spec_from_file_location("gradient_matrices", STUDIES / "gradient_matrices.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gradient_matrices", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_before_and_after_are_the_scores_of_the_whole_and_of_the_smaller_model(study, architecture):
    view = TINY.random_view(architecture, dtype=torch.float64)
    before, after, removed = study.compared(view, 1)
    expected = gnorm(view)
    torch.testing.assert_close(before.scores(view), expected, rtol=1e-6, atol=0)
    assert removed == [int(expected.argmin())]
    kept = view.heads.full_mask()
    kept[removed] = False
    smaller = working_copy(view.model)
    heads = shrink(smaller, kept, view.heads)
    there = replace(view, model=smaller, heads=heads, kept=heads.full_mask())
    torch.testing.assert_close(after.scores(view)[kept], gnorm(there), rtol=1e-6, atol=0)
    assert after.scores(view)[removed].item() == 0


def test_the_matrices_are_the_gradients_of_the_weights(study):
    """By hand: a backward pass for each sentence, and the rows of each head in the gradients of BERT's weights."""
    sentences = TINY.sentences(0)
    view = TINY.view(TINY.model("bert", dtype=torch.float64), [TINY.batch(sentences)])
    found = study.gradient_norms(view)
    for layer, module in enumerate(view.model.bert.encoder.layer):
        for part in ("query", "key", "value"):
            weight = getattr(module.attention.self, part).weight.requires_grad_()
            norms = []
            for one in TINY.alone(sentences):
                (gradient,) = torch.autograd.grad(view.logits(one).norm(), weight)
                norms.append(gradient.unflatten(0, (4, 4)).flatten(1).norm(dim=1))
            torch.testing.assert_close(getattr(found, part)[layer], torch.stack(norms).mean(0))


def test_the_figure_gives_the_change_of_each_head_and_marks_what_is_removed(study):
    before, after = [torch.tensor([2.0, 4.0])], [torch.tensor([0.0, 5.0])]
    figure = study.drawn(study.Norms(before, before, before), study.Norms(after, after, after), "title")
    for axis in np.reshape(figure.axes, (3, 3))[:, 2]:
        written = {int(text.get_position()[0]): text.get_text() for text in axis.texts if text.get_text()}
        assert written == {0: "×", 1: "+25"}  # by column


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--removed", "-1"], "--removed: expected a whole number, at least 1, not '-1'"),
        (["--removed", "0"], "--removed: expected a whole number, at least 1, not '0'"),
        (["--removed", "8"], "--removed 8: expected fewer than the 8 units of tiny-bert"),
        (["--calibration", "0"], "--calibration: expected a whole number, at least 1, not '0'"),
        (["--task", "clasification"], "unknown task 'clasification'"),
        (
            ["--mirror", "nowhere", "--model", "org/other"],
            "mirror nowhere (--mirror or HEADBENCH_MIRROR): no such folder",
        ),
        (["--out", "nowhere/picture.svg"], "--out: no such folder: 'nowhere'"),
    ],
)
def test_bad_flags_are_one_line(study, tiny_model, tiny_data, tmp_path, monkeypatch, capsys, flags, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["study", "--model", str(tiny_model), "--data", str(tiny_data), *flags])
    with pytest.raises(SystemExit) as ended:
        study.main()
    assert ended.value.code == 2 and capsys.readouterr().err == f"headbench: error: {said}\n"


@pytest.mark.parametrize("variable", [True, False])
def test_a_model_may_be_a_copy_in_the_mirror(study, tiny_model, tiny_data, tmp_path, monkeypatch, variable):
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "org--tiny").symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADBENCH_MIRROR", "copies" if variable else "")
    flags = ["--model", "org/tiny", "--data", str(tiny_data), "--calibration", "4", "--removed", "2"]
    monkeypatch.setattr(sys, "argv", ["study", *flags, *([] if variable else ["--mirror", "copies"])])
    study.main()
    assert (tmp_path / "gradient_matrices.svg").exists()
