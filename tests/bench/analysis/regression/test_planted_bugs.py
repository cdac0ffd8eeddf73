"""Bugs planted in real methods, and in what they run on: each is found, and the method and what moved are named."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from bench.__main__ import main
from methods import METHODS, entropy
from methods.heads.incremental import Restart

RUN = ["run", "--jobs", "1", "--no-latency", "--task", "classification", "--seeds", "1", "--device", "cpu"]
RUN += ["--levels", "0.25,0.5,0.75"]


@pytest.fixture(scope="module")
def many_heads(tmp_path_factory, tiny_model):
    """A folder with a random classifier of 48 heads, some of them nearly as important as others."""
    folder = tmp_path_factory.mktemp("models") / "many-heads"
    shutil.copytree(tiny_model, folder)
    sizes = {"hidden_size": 64, "num_attention_heads": 16, "num_hidden_layers": 3, "initializer_range": 0.2}
    config = BertConfig.from_pretrained(tiny_model, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory, tiny_data, many_heads):
    """Run methods in a folder, and judge it by the one run before any bug was planted."""
    folder = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADBENCH_CACHE", str(folder / "cache"))
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))

        def run(name: str) -> None:
            own = ["--model", str(many_heads), "--data", str(tiny_data), "--out", str(folder / name)]
            assert main([*RUN, *own, "--methods", "ae,michel,leave-one-out"]) == 0

        run("before")
        yield folder, run


@pytest.fixture
def judged(world, capsys):
    """Exit code, and what is said of each method by its verdict, after a run as things are now."""
    folder, run = world

    def judge() -> tuple[int, str]:
        run(f"after{len(list(folder.iterdir()))}")
        newest = max(folder.glob("after*"), key=lambda path: path.stat().st_mtime)
        capsys.readouterr()
        code = main(["regress", "--baseline", str(folder / "before"), str(newest)])
        return code, capsys.readouterr().out

    return judge


@pytest.mark.slow
def test_without_a_bug_nothing_is_found(judged):
    code, said = judged()
    assert code == 0 and "same    ae, leave-one-out, michel" in said


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(torch.neg, id="a flipped sign"),
        pytest.param(lambda scores: scores.roll(1), id="one head off by one", marks=pytest.mark.slow),
    ],
)
def test_wrong_scores_are_found(judged, monkeypatch, wrong):
    right = METHODS["michel"]
    bug = dataclasses.replace(right, function=lambda view, **options: wrong(right.function(view, **options)))
    bug.function.__module__ = right.function.__module__
    monkeypatch.setitem(METHODS, "michel", bug)
    code, said = judged()
    assert code == 1
    assert "FAILED  michel\n" in said and "same    ae, leave-one-out" in said
    assert "removal order in 1 of 1 cells" in said


@pytest.mark.slow
def test_padding_counted_in_entropy_is_found(judged, monkeypatch):
    right = entropy._entropy
    monkeypatch.setattr(entropy, "_entropy", lambda rows, real, *rest: right(rows, torch.ones_like(real), *rest))
    code, said = judged()
    assert code == 1
    assert "FAILED  ae\n" in said and "same    leave-one-out, michel" in said
    assert "removal order in 1 of 1 cells" in said


@pytest.mark.slow
def test_a_stale_cache_is_found(judged, monkeypatch):
    """Evaluation goes on from activations of a model that has changed since."""
    monkeypatch.setattr(Restart, "changed", lambda self, site: None)
    code, said = judged()
    assert code == 1 and "FAILED  ae" in said and "quality in 1 of 1 cells" in said
    assert "removal order" not in said


@pytest.mark.slow
def test_a_second_pass_is_found(judged, monkeypatch):
    right = METHODS["michel"]

    def twice(view, **options):
        right.function(view, **options)
        return right.function(view, **options)

    twice.__module__ = right.function.__module__
    monkeypatch.setitem(METHODS, "michel", dataclasses.replace(right, function=twice))
    code, said = judged()
    assert code == 1 and "FAILED  michel\n" in said and "passes in 1 of 1 cells" in said
    assert "takes up to 2.00 times the passes" in said
