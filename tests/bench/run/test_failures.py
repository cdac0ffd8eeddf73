"""A method or model that fails costs its own cells only, and the record says why."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.records.storage.files import TEMPORARY
from tasks.text_classification import TextClassification

METHODS = """
import ctypes, faulthandler, os, signal, threading, time
import torch
from methods import scorer, selector

@scorer("raises", source="test")
def raises(view):
    raise KeyError("the method's own fault\\nwith a second line")

@scorer("kills", source="test")
def kills(view):
    os.kill(os.getpid(), signal.SIGKILL)

@scorer("nan-importance", source="test")
def nan_importance(view):
    return torch.where(torch.arange(8) == 6, torch.nan, torch.arange(8.0))

@scorer("misses-a-file", source="test")
def misses_a_file(view):
    return torch.load("/nowhere/scores.pt")

@scorer("leaks", source="test")
def leaks(view):
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    return torch.arange(8.0)

@scorer("writes", source="test")
def writes(view):
    next(view.model.parameters()).data[0] += 1
    return torch.arange(8.0)

@scorer("leaves", source="test")
def leaves(view):
    raise SystemExit("enough")

@scorer("exits", source="test")
def exits(view):
    os._exit(0)

@scorer("crashes", source="test")
def crashes(view):
    faulthandler.disable()  # it would print a traceback
    ctypes.string_at(0)

@scorer("speechless", source="test")
def speechless(view):
    class Speechless(Exception):
        def __str__(self):
            raise SystemExit("no words")
    raise Speechless("x")

@scorer("unprintable", source="test")
def unprintable(view):
    raise ValueError("half a pair: " + chr(0xd800) + "\\n" + "x" * 10**6)

@scorer("interrupts", source="test")
def interrupts(view):
    raise KeyboardInterrupt

@scorer("hangs", source="test")
def hangs(view):
    while True:
        time.sleep(60)

@scorer("permutes", source="test")
def permutes(view):
    weight = next(view.model.parameters()).data
    weight[[0, 1]] = weight[[1, 0]]
    return torch.arange(8.0)

@scorer("rewrites", source="test")
def rewrites(view):
    view.batches[0].inputs["input_ids"].fill_(5)
    return torch.arange(8.0)

@scorer("closes", source="test")
def closes(view):
    view.kept[:] = False
    return torch.arange(8.0)

@scorer("trains", source="test")
def trains(view):
    view.model.get_submodule("bert.encoder").train()
    return torch.arange(8.0)

@scorer("hooks", source="test")
def hooks(view):
    view.model.get_submodule("bert.encoder").register_forward_hook(lambda *_: None)
    return torch.arange(8.0)

@scorer("wraps", source="test")
def wraps(view):
    layer = view.model.bert.encoder.layer[0]
    own = layer.forward
    layer.forward = lambda *args, **kwargs: own(*args, **kwargs) * 0.5
    return torch.arange(8.0)

@scorer("adds", source="test")
def adds(view):
    view.model.bert.embeddings.position_ids.add_(1)
    return torch.arange(8.0)

@scorer("patches", source="test")
def patches(view):
    kind = type(view.model.bert.encoder.layer[0].output)
    own = kind.forward
    kind.forward = lambda *args, **kwargs: 2 * own(*args, **kwargs)
    return torch.arange(8.0)

@scorer("patches-and-fails", source="test")
def patches_and_fails(view):
    patches(view)
    raise ValueError("before it cleaned up")

@scorer("lingers", source="test")
def lingers(view):
    threading.Timer(0.2, os._exit, [3]).start()
    return torch.arange(8.0)

@selector("wrong-mask", source="test")
def wrong_mask(view, keep):
    return torch.ones(8)

@scorer("global-draw", source="test")
def global_draw(view):
    return torch.rand(8)
"""


def reason(said: str, code: str) -> re.Pattern[str]:
    """The reason of a cell that fails with ``said`` at the line ``code`` of METHODS."""
    return re.compile(rf"{re.escape(said)} \(\w+\.py:{METHODS.splitlines().index(code) + 1}\)")


def test_a_method_that_ends_its_process_does_not_end_the_run(place, plugin, capsys):
    plugin(METHODS)
    assert place.run("--methods", "leaves,none", "--jobs", "1") == 1
    records = place.records()
    expected = reason("SystemExit: enough", '    raise SystemExit("enough")')
    assert expected.fullmatch(records["leaves/seed0"]["reason"])
    assert records["none/seed0"]["status"] == "done"


def test_every_cell_ends_in_a_record_whatever_its_method_does_to_the_process(place, plugin, capfd):
    plugin(METHODS)
    bad = ("exits", "crashes", "speechless", "unprintable", "interrupts", "hangs", "kills")
    assert place.run("--methods", ",".join([*bad, "none"]), "--jobs", "1", "--timeout", "5") == 1
    records = {name.removesuffix("/seed0"): record for name, record in place.records().items()}
    assert records.pop("none")["status"] == "done"
    reasons = {name: re.sub(r" \(\w+\.py:\d+\)$", "", record["reason"])[:70] for name, record in records.items()}
    assert reasons == {
        "exits": "its process ended with exit code 0",
        "crashes": "its process ended with signal SIGSEGV",
        "speechless": "Speechless: its message cannot be shown (SystemExit)",
        "unprintable": "ValueError: half a pair: \\ud800",
        "interrupts": "it raised KeyboardInterrupt",
        "hangs": "it took longer than 5 s (--timeout)",
        "kills": "its process ended with signal SIGKILL, as when memory runs out",
    }
    assert not [name for name in place.files() if name.endswith(TEMPORARY)]
    output = capfd.readouterr()
    assert "Traceback" not in output.out + output.err
    assert "  hangs on tiny-bert, tiny, seed 0: " in output.err  # named while it was at hand


@pytest.mark.slow
def test_a_process_that_dies_after_its_cell_costs_no_other_cell(place, plugin):
    plugin(METHODS)
    assert place.run("--methods", "lingers,none,random,michel,ae,gnorm,attr", "--jobs", "1") in (0, 1)
    failed = {name for name, record in place.records().items() if record["status"] == "failed"}
    assert len(place.records()) == 7 and len(failed) <= 1


def test_what_a_method_leaves_on_the_model_fails_its_cell(place, plugin):
    plugin(METHODS)
    assert place.run("--methods", "permutes,hooks,rewrites,closes,trains", "--jobs", "1") == 1
    reasons = {name: record["reason"] for name, record in place.records().items()}
    assert reasons["permutes/seed0"].startswith("SideEffect: the method changed weights of the model: bert.embeddings")
    assert reasons["hooks/seed0"].endswith("forward hooks of bert.encoder, was 0, is 1")
    changed = "SideEffect: the method changed {} of its view: change a copy"
    assert reasons["rewrites/seed0"] == changed.format("input_ids of batch 0")
    assert reasons["closes/seed0"] == changed.format("kept")
    assert reasons["trains/seed0"] == "SideEffect: the method left bert.encoder in training mode"


def test_what_a_method_leaves_behind_reaches_no_other(place, plugin):
    plugin(METHODS)
    assert place.run("--methods", "random,voita", "--jobs", "1") == 0
    alone = {name: record["result"] for name, record in place.records().items()}
    shutil.rmtree(place.out)
    bad = ("leaks", "writes", "wraps", "adds", "patches", "patches-and-fails")
    assert place.run("--methods", ",".join([*bad, "random", "voita"]), "--jobs", "1") == 1
    records = place.records()
    assert records["leaks/seed0"]["reason"].startswith("SideEffect: the method changed gradients being on from True to")
    assert records["writes/seed0"]["reason"].startswith("SideEffect: the method changed weights of the model: ")
    for name in ("wraps", "adds", "patches"):
        assert records[f"{name}/seed0"]["reason"].startswith("SideEffect: the method changed what the model computes: ")
    expected = reason("ValueError: before it cleaned up", '    raise ValueError("before it cleaned up")')
    assert expected.fullmatch(records["patches-and-fails/seed0"]["reason"])
    assert {name: records[name]["result"] for name in alone} == alone


@pytest.mark.slow
def test_whatever_goes_wrong_costs_its_own_cell(place, plugin, capsys):
    plugin(METHODS)
    bad = "raises,kills,nan-importance,misses-a-file,wrong-mask"
    assert place.run("--methods", f"{bad},none,random,michel,global-draw", "--jobs", "2") == 1
    records = {name.removesuffix("/seed0"): record for name, record in place.records().items()}
    reasons = {name: record["reason"] for name, record in records.items() if record["status"] == "failed"}
    assert "KeyError" in reasons["raises"] and "the method's own fault" in reasons["raises"]
    assert reasons["kills"] == "its process ended with signal SIGKILL, as when memory runs out"
    assert reasons["nan-importance"].startswith(
        "NonFiniteScore: method nan-importance: importance nan for head 2 of bert.encoder.layer.1"
    )
    assert "FileNotFoundError" in reasons["misses-a-file"] and "/nowhere/scores.pt" in reasons["misses-a-file"]
    assert reasons["wrong-mask"].startswith("ValueError: mask of shape (8,) and torch.float32")
    assert set(reasons) == set(bad.split(","))
    assert "in raises\n" in records["raises"]["traceback"]
    assert set(records) - set(reasons) == {"none", "random", "michel", "global-draw"}
    output = capsys.readouterr().out
    assert all(f"{name}/seed0: {reason}" in output for name, reason in reasons.items())
    assert "| michel " in output  # the summary is shown all the same
    # One process gives the same, bit for bit.
    assert place.run("--methods", "none,random,michel,global-draw", out=place.folder / "serial") == 0
    serial = place.results(place.folder / "serial")
    assert len(serial) == 4
    assert {name: place.results()[name] for name in serial} == serial
    assert serial["random/seed0"]["result"]["quality"] != serial["michel/seed0"]["result"]["quality"]


@pytest.mark.slow
def test_weights_that_are_not_numbers_fail_the_cells_of_that_model_only(place, capsys):
    broken = place.folder / "broken-bert"
    shutil.copytree(place.model, broken)
    weights = load_file(broken / "model.safetensors")
    weights["bert.encoder.layer.0.attention.self.query.weight"][0, 0] = torch.nan
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    suite = "methods = 'none,random,michel,ae'\nseeds = 1\nlevels = [0.5]\n"
    assert place.run_suite(suite + place.task(model=str(broken)) + place.task()) == 1
    records = [json.loads(content) for name, content in place.files().items() if name.endswith(".json")]
    assert {(r["cell"]["model"], r["status"]) for r in records} == {("broken-bert", "failed"), ("tiny-bert", "done")}
    assert len(records) == 8
    reasons = [record["reason"] for record in records if record["status"] == "failed"]
    assert all("not finite" in reason or "importance nan" in reason for reason in reasons)
    assert "## Overall" in capsys.readouterr().out
    assert "- failed: none, tiny, broken-bert, seed 0" in (place.out / "leaderboard.md").read_text()


def test_a_training_that_fails_is_reported_by_every_cell_that_needs_it(place, monkeypatch, capsys):
    def diverges(*_, **__):
        raise FloatingPointError("loss is nan at step 3")

    monkeypatch.setattr("tasks.models.train.train", diverges)
    assert place.run("--methods", "none,random", "--finetune") == 1
    assert {record["reason"] for record in place.records().values()} == {"FloatingPointError: loss is nan at step 3"}
    assert (
        "training tiny-bert, tiny, seed 0: failed: FloatingPointError: loss is nan at step 3" in capsys.readouterr().out
    )


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), RuntimeError(), TimeoutError("no answer")])
def test_a_training_that_raises_is_tried_once_and_does_not_end_the_run(place, monkeypatch, error):
    tries = place.folder / "tries"

    def breaks(*_, **__):
        with tries.open("a") as file:
            file.write("x")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("tasks.models.train.train", breaks)
        assert place.run("--methods", "none,random,michel", "--finetune", "--jobs", "2") == 1
        assert tries.read_text() == "x"
        for record in place.records().values():
            assert record["reason"] == f"{type(error).__name__}: {str(error) or 'no message'}"
            assert "in breaks\n" in record["traceback"]
        assert not any(path.is_dir() for path in place.cache.iterdir())
        assert place.run("--methods", "none,random,michel", "--finetune", "--retry-failed") == 1
        assert tries.read_text() == "xx" and len(place.records()) == 3
    assert place.run("--methods", "none,random,michel", "--finetune", "--retry-failed") == 0


def test_a_training_that_ends_its_process_is_tried_once(place, monkeypatch, capsys):
    tries = place.folder / "tries"

    def dies(*_, **__):
        with tries.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("tasks.models.train.train", dies)
    assert place.run("--methods", "none,random", "--finetune", "--jobs", "2") == 1
    ended = "its process ended with signal SIGKILL, as when memory runs out"
    assert [record["reason"] for record in place.records().values()] == [f"its model was not trained: {ended}"] * 2
    assert tries.read_text() == "x"
    said = capsys.readouterr().out
    assert f"training tiny-bert, tiny, seed 0: failed: {ended}" in said
    assert said.index("[1/3] training") < said.index("[2/3] none") < said.index("[3/3] random")


def test_cells_whose_model_cannot_be_trained_again_are_not_timed(place, monkeypatch, capsys):
    flags = "--methods", "none,random", "--finetune"
    assert place.run(*flags) == 0
    shutil.rmtree(place.cache)
    place.timed, tries = True, place.folder / "tries"

    def breaks(*_, **__):
        with tries.open("a") as file:
            file.write("x")
        raise RuntimeError("out of memory")

    monkeypatch.setattr("tasks.models.train.train", breaks)
    before = place.files()
    assert place.run(*flags) == 1
    assert tries.read_text() == "x" and place.files().items() >= before.items()
    said = capsys.readouterr().out
    assert said.count("seed0: its model was not trained: RuntimeError: out of memory") == 2


LOST = [ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError("no answer"), FileNotFoundError(2, "gone")]


@pytest.mark.parametrize("error", LOST)
def test_a_connection_or_file_that_a_task_loses_fails_its_cells_only(place, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(TextClassification, "evaluate", fails)
    assert place.run("--methods", "none,michel") == 1
    records = place.records().values()
    assert [record["reason"] for record in records] == [f"{type(error).__name__}: {error}"] * 2
    assert all("in fails\n" in record["traceback"] for record in records)


def test_data_or_a_model_that_changes_meanwhile_ends_the_run_and_leaves_no_record(place, monkeypatch, capsys):
    """A record would have the key of other data; where a node has another revision from the hub, too."""
    monkeypatch.setattr("bench.measure.cell.origin_of", lambda fingerprint: "of other data")
    assert place.run("--methods", "none") == 2
    said = capsys.readouterr().err
    assert "tiny-bert, tiny, seed 0: its data or model is not the one that this run was planned with" in said
    assert "Traceback" not in said and not place.records()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_full_or_failing_disk_ends_the_run_and_fails_no_cell(place, monkeypatch, capsys, number):
    def fails(*_):
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(TextClassification, "evaluate", fails)
    assert place.run("--methods", "none") == 2
    assert f"headbench: error: /some/file: {os.strerror(number)}" in capsys.readouterr().err
    assert not place.records()
