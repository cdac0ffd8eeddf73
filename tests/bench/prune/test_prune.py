"""The verb prune: a smaller checkpoint that loads, with a card that tells the truth."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import os
import re
import subprocess
import sys
import time
import weakref
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from bench.__main__ import main
from bench.measure.evaluate import evaluate_model
from bench.measure.latency import ForwardTimes
from bench.measure.status import Status
from bench.measure.timing import Laps
from bench.prune.budget import units_to_keep
from bench.prune.target import target_of
from bench.prune.times import share_waited
from bench.records.errors import InputError
from methods import METHODS
from methods.cahp import chosen_number
from methods.heads import HeadMap, load_pruned, save_pruned
from methods.recovery import choosing
from tasks.models import train as training
from tests.fixtures.classifiers import save_classifier
from tests.fixtures.slow import slow_cases


def test_the_checkpoint_has_the_heads_asked_for_and_says_what_was_printed(prune, tmp_path, capsys):
    assert prune("--method", "michel", "--keep", "0.5") == 0
    printed = capsys.readouterr().out
    card = (tmp_path / "small" / "README.md").read_text()
    smaller = load_pruned(tmp_path / "small")
    assert len(HeadMap.of(smaller)) == 4
    data, _, printed = printed.partition("\n")
    assert data.startswith("tiny: ") and printed.partition("\n\nSaved: ")[0] in card
    parameters = sum(parameter.numel() for parameter in smaller.parameters())
    assert f"{parameters:,}" in card and "by `michel`" in card
    assert re.search(r"Accuracy is that of [0-9]+ test examples, where guessing has [5-9][0-9]\.[0-9] %\.", card)
    assert not list(tmp_path.glob(".*"))  # nothing half written


def test_a_method_may_choose_how_many_heads_stay(prune, tmp_path, capsys, monkeypatch):
    numbers = []

    def noted(view):
        numbers.append(chosen_number(view))
        return numbers[-1]

    monkeypatch.setitem(METHODS, "cahp", dataclasses.replace(METHODS["cahp"], own_number=noted))
    assert prune("--method", "cahp", "--keep", "auto") == 0
    (number,) = numbers
    assert 0 < number < 8 and len(HeadMap.of(load_pruned(tmp_path / "small"))) == number
    card = (tmp_path / "small" / "README.md").read_text()
    assert "The method itself chose how many heads to keep." in card and "--keep auto" in card


def test_a_model_that_only_guesses_is_told(prune, place, tiny_model, tmp_path, capsys):
    """As where every class is one too high. A model that is right gets no remark."""
    tokenizer, model = (
        each.from_pretrained(tiny_model) for each in (AutoTokenizer, AutoModelForSequenceClassification)
    )
    texts = [json.loads(line)["text"] for line in place.data.read_text().splitlines()]
    with torch.no_grad():
        answers = model(**tokenizer(texts, return_tensors="pt", padding=True)).logits.argmax(1).tolist()
    assert len(set(answers)) == 2 and capsys.readouterr()
    said = {}
    for name, labels in (("right", ("negative", "positive")), ("wrong", ("positive", "negative"))):
        place.data = place.folder / f"{name}.jsonl"
        rows = [{"text": text, "label": labels[answer]} for text, answer in zip(texts, answers, strict=True)]
        place.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert prune("--method", "magnitude", "--keep", "0.5", out=name) == 0
        said[name] = capsys.readouterr().err, (tmp_path / name / "README.md").read_text()
    start = "The unpruned model is not better than chance by 2 standard errors (accuracy 0.0 %, chance "
    error, card = said["wrong"]
    assert error.startswith(f"headbench: {start}") and error.count("\n") == 1 and f"\n\n{start}" in card
    assert said["right"][0] == "" and "than chance" not in said["right"][1]


@pytest.mark.parametrize(
    ("method", "flags", "said"),
    [
        ("michel", (), "on 100 calibration texts of the training split"),
        ("michel", ("--finetune",), "on 37 calibration texts held out of training"),  # a quarter of 148
        ("michel", ("--finetune", "--calibration-from", "train"), "on 100 calibration texts of the training split"),
        ("magnitude", (), "reading no text"),
        ("magnitude", ("--recover", "scale"), "on 100 calibration texts of the training split"),
    ],
)
def test_the_card_says_where_calibration_texts_come_from(prune, tmp_path, method, flags, said):
    assert prune("--method", method, "--keep", "0.5", "--calibration", "100", *flags) == 0
    assert f", seed 0, {said}, with headbench" in (tmp_path / "small" / "README.md").read_text()


def test_the_model_is_in_memory_once(prune, monkeypatch):
    looked_at, alive = [], []

    def look(options, task):
        validate = task.validate

        def noted():
            model = validate()
            looked_at.append(weakref.ref(model))
            return model

        with monkeypatch.context() as patch:
            patch.setattr(task, "validate", noted)
            return target_of(options, task)

    def evaluate(*given):
        gc.collect()
        alive.append(looked_at[0]() is not None)
        return evaluate_model(*given)

    monkeypatch.setattr("bench.prune.prune.target_of", look)
    monkeypatch.setattr("bench.prune.prune.evaluate_model", evaluate)
    assert prune("--method", "magnitude", "--keep", "0.5") == 0 and alive == [False, False]


def test_heads_of_other_kinds_of_attention_stay(tiny_marian, tiny_pairs, tmp_path):
    own = ["--task", "translation", "--model", tiny_marian, "--data", tiny_pairs, "--text", "en,hu", "--limit", 8]
    flags = ["--method", "michel", "--keep", "25%", "--kinds", "cross", "--device", "cpu", "--out", tmp_path / "small"]
    assert main(["prune", *map(str, (*own, *flags))]) == 0
    smaller = HeadMap.of(load_pruned(tmp_path / "small"))
    assert {site.num_heads for site in smaller.sites if site.kind != "cross"} == {4}
    assert sum(site.num_heads for site in smaller.sites if site.kind == "cross") == 2
    card = (tmp_path / "small" / "README.md").read_text()
    assert "18 of 24 attention heads kept" in card and "Only heads of cross attention could go." in card
    assert "- model.encoder.layers.1.self_attn: 4 of 4 (0, 1, 2, 3)" in card and "--kinds cross" in card


def test_what_was_read_and_a_long_training_are_told(prune, place, tmp_path, capfd, monkeypatch):
    """As by a run: which rows were dropped, and how far the training is."""
    place.data = place.folder / "some.csv"
    rows = [f"text {number},{('negative', 'positive', '')[number % 3]}" for number in range(60)]
    place.data.write_text("text,label\n" + "\n".join(rows) + "\n")
    train = training.train

    def slow(*given, **named):
        found = train(*given, **named)
        time.sleep(0.5)  # long enough to be told of, also on a busy machine
        return found

    monkeypatch.setattr("tasks.models.train.train", slow)
    monkeypatch.setitem(Status.__init__.__kwdefaults__, "every", 0.02)
    assert prune("--method", "magnitude", "--keep", "0.5", "--finetune", "--seed", "3") == 0
    told = capfd.readouterr()
    first = told.out.splitlines()[0]
    assert first.startswith("some: ") and "without a label" in first
    assert f"\n{first}.\n" in (tmp_path / "small" / "README.md").read_text()
    assert re.search(r"^  training tiny-bert, some, seed 3: step \d+ of \d+", told.err, re.MULTILINE)


def in_this_process(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    monkeypatch.chdir(folder)
    exec(code, names := {})
    return names["logits"]


def in_a_new_one(code: str, folder: Path, _) -> list[list[float]]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", f"{code}\nprint(logits)"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_card_says_how_many_layers_share_an_attention_module(prune, tmp_path, tiny_model):
    config = partial(
        AlbertConfig, embedding_size=8, hidden_size=32, num_hidden_layers=4, num_hidden_groups=2,
        num_attention_heads=4, intermediate_size=16,
    )  # fmt: skip
    model = save_classifier(tmp_path / "whole", tiny_model, AlbertForSequenceClassification, config)
    assert prune("--method", "magnitude", "--keep", "0.5", model=model) == 0
    heads = re.findall(
        r"^- albert\S+groups\.\d\S+: (\d) of 4(?: \([0-3, ]+\))?, in each of the 2 layers that share it$",
        (tmp_path / "small" / "README.md").read_text(),
        flags=re.MULTILINE,
    )  # fmt: skip
    assert len(heads) == 2 and sum(map(int, heads)) == 4


@pytest.mark.parametrize("run", [in_this_process, *slow_cases(in_a_new_one)])
def test_the_lines_of_the_card_load_it(prune, tmp_path, monkeypatch, run):
    assert prune("--method", "ae:variant=A", "--keep", "3") == 0
    card = (tmp_path / "small" / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    code += "\nlogits = model(**tokenizer('good film', return_tensors='pt')).logits.tolist()"
    inputs = AutoTokenizer.from_pretrained(tmp_path / "small")("good film", return_tensors="pt")
    with torch.no_grad():
        assert run(code, tmp_path, monkeypatch) == load_pruned(tmp_path / "small")(**inputs).logits.tolist()


def test_recovered_weights_are_saved_and_the_card_says_so(prune, tmp_path, capsys):
    assert prune("--method", "michel", "--keep", "3") == 0
    assert prune("--method", "michel", "--keep", "3", "--recover", "lstsq", out="recovered") == 0
    assert prune("--method", "michel:recover=lstsq", "--keep", "3", out="same") == 0
    names = ("small", "recovered", "same")
    plain, recovered, same = (load_pruned(tmp_path / name) for name in names)
    inputs = AutoTokenizer.from_pretrained(tmp_path / "small")("good film", return_tensors="pt")
    with torch.no_grad():
        first, second, third = (model(**inputs).logits for model in (plain, recovered, same))
    assert torch.equal(second, third) and not torch.allclose(first, second)
    changed = {
        name for name, value in recovered.state_dict().items() if not torch.equal(value, plain.get_parameter(name))
    }
    assert changed and all(".attention.output.dense." in name for name in changed)
    cards = [(tmp_path / name / "README.md").read_text() for name in names]
    said = "Output weights were recovered without training (lstsq): "
    assert said not in cards[0] and said in cards[1] and "by `michel:recover=lstsq`" in cards[1]
    modules = len({name.rpartition(".")[0] for name in changed})
    assert f"{modules} attention module" in cards[1].partition(said)[2]
    assert "which trained" not in cards[1]


@pytest.mark.parametrize(
    ("how", "said", "held_out"),
    [
        ("bias", "2 attention modules got a new output bias", False),
        ("scale-damped", "(scale-damped): 1 attention module got new ones", False),  # not the first
        ("scale", "(scale): ", True),
    ],
)
def test_the_card_speaks_of_texts_held_out_only_where_some_were(prune, tmp_path, how, said, held_out):
    assert prune("--method", "magnitude:allocation=layer", "--keep", "0.5", "--recover", how) == 0
    recovered = re.search(r"[^.]*without training[^.]*\.", (tmp_path / "small" / "README.md").read_text(), re.I)[0]
    assert said in recovered and ("held out" in recovered) == held_out


def test_the_card_says_of_a_method_that_it_changed_weights_without_training(prune, tmp_path):
    assert prune("--method", "obs-compensated", "--keep", "3") == 0
    card = (tmp_path / "small" / "README.md").read_text()
    assert "changed the weights that are left, without training" in card and "which trained" not in card
    assert prune("--method", "obs-compensated", "--keep", "8", out="whole") == 0
    assert "changed the weights" not in (tmp_path / "whole" / "README.md").read_text()  # as nothing was removed


def test_of_several_draws_the_first_alone_is_recovered(prune, monkeypatch):
    recovered = []
    recover = choosing.recover
    monkeypatch.setattr(choosing, "recover", lambda *given: recovered.append(given) or recover(*given))
    assert prune("--method", "random", "--recover", "scale", "--keep", "0.5") == 0
    assert METHODS["random"].configure({})["draws"] > 1 and len(recovered) == 1


def test_a_bias_that_a_checkpoint_cannot_hold_is_refused(prune, tiny_qwen, tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("bench.prune.prune.evaluate_model", None)  # before anything is evaluated or scored
        assert prune("--method", "magnitude", "--keep", "0.5", "--recover", "bias", model=tiny_qwen) == 2
    assert "has no place for: use --recover lstsq or scale" in capsys.readouterr().err
    assert not (tmp_path / "small").exists()
    assert prune("--method", "magnitude", "--keep", "0.5", "--recover", "scale", model=tiny_qwen) == 0


@pytest.mark.parametrize("keep", ["0.75", "0.5"])  # at half, a layer has no head left
def test_a_checkpoint_without_biases_holds_weights_by_least_squares(prune, tiny_llama, tmp_path, monkeypatch, keep):
    recovered = []

    def save(model, folder):
        recovered.append(model)
        return save_pruned(model, folder)

    assert prune("--method", "magnitude", "--keep", keep, model=tiny_llama) == 0
    monkeypatch.setattr("bench.prune.saving.save_pruned", save)
    assert prune("--method", "magnitude", "--keep", keep, "--recover", "lstsq", model=tiny_llama, out="recovered") == 0
    plain, loaded = (load_pruned(tmp_path / name) for name in ("small", "recovered"))
    inputs = AutoTokenizer.from_pretrained(tiny_llama)("good film", return_tensors="pt")
    with torch.no_grad():
        logits = loaded(**inputs).logits
        assert torch.equal(logits, recovered[0](**inputs).logits)
        assert not torch.allclose(logits, plain(**inputs).logits)
    assert loaded.state_dict().keys() == plain.state_dict().keys()


def test_a_pruned_checkpoint_can_be_pruned_further_and_benchmarked(prune, place, tmp_path, capsys):
    assert prune("--method", "michel", "--keep", "6") == 0
    assert prune("--method", "ae", "--keep", "2", out="smaller", model=tmp_path / "small") == 0
    assert len(HeadMap.of(load_pruned(tmp_path / "smaller"))) == 2
    second = capsys.readouterr().out.split("# small, ")[1]
    assert second.startswith("2 of 8 attention heads kept") and "The model before had 6 of the 8 heads left." in second
    kept = json.loads((tmp_path / "smaller" / "pruning.json").read_text())["heads"]
    for name, heads in kept.items():  # numbered as in the model before any pruning
        assert f"- {name}: {len(heads)} of 4" + (f" ({', '.join(map(str, heads))})" if heads else "") + "\n" in second
    flags = ["--task", "classification", "--model", str(tmp_path / "smaller"), "--data", str(place.data)]
    assert (
        main(["run", *flags, "--methods", "none", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    )


def test_the_card_counts_neurons_against_those_before_any_pruning(prune, tmp_path, capsys):
    assert prune("--method", "amp", "--keep", "0.5") == 0
    assert prune("--method", "magnitude", "--keep", "2", out="smaller", model=tmp_path / "small") == 0
    first, second = (text.partition("Neurons kept")[2] for text in capsys.readouterr().out.split("\nSaved: ")[:2])
    assert re.findall(r"- \S+: (\d+) of (\d+)\n", first) == [("24", "48")] * 2
    assert first == second


@pytest.mark.parametrize(("keep", "plain"), [("0.5", True), ("0.25", False)])
def test_the_card_says_whether_transformers_alone_loads_it(prune, tiny_qwen, tmp_path, keep, plain):
    """Where every layer keeps as many heads, and its configuration has a head size of its own."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen)
    assert prune("--method", "magnitude:allocation=layer", "--keep", keep, model=tiny_qwen) == 0
    card = (tmp_path / "small" / "README.md").read_text()
    assert ("loads it as well, without headbench" in card) == plain
    if plain:
        inputs = tokenizer("good film", return_tensors="pt")
        loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "small").eval()
        assert torch.equal(loaded(**inputs).logits, load_pruned(tmp_path / "small")(**inputs).logits)


@pytest.mark.parametrize(("damaged", "by"), [("weights", "load_pruned"), ("settings", "from_pretrained")])
def test_what_was_saved_is_loaded_and_compared(prune, tiny_qwen, tmp_path, capsys, monkeypatch, damaged, by):
    def save(model, folder):
        if damaged == "weights":
            with torch.no_grad():
                model = copy.deepcopy(model)
                model.score.weight.neg_()
        plain = save_pruned(model, folder)
        if damaged == "settings":
            settings = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(settings | {"rms_norm_eps": 1.0}))
        return plain

    monkeypatch.setattr("bench.prune.saving.save_pruned", save)
    before = sorted(tmp_path.rglob("*"))
    assert prune("--method", "magnitude:allocation=layer", "--keep", "0.5", model=tiny_qwen) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"headbench: error: nothing was saved: {by} ") and said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("dtype", "advice"), [("", ""), ("float32", ""), ("bfloat16", ": use --dtype float32")])
def test_a_model_that_is_not_exact_is_one_line(
    tiny_language_model, tiny_texts, tmp_path, capsys, monkeypatch, dtype, advice
):
    import_module("bench.prune.prune")  # so that no module takes the function below for good
    monkeypatch.setattr("bench.measure.exactness.gap_between", lambda *_: 0.5)
    own = ["--task", "harness", "--model", tiny_language_model, "--data", tiny_texts, "--device", "cpu"]
    flags = ["--method", "magnitude", "--keep", "0.5", "--out", tmp_path / "small"]
    flags += ["--dtype", dtype] if dtype else []
    assert main(["prune", *map(str, (*own, *flags))]) == 2
    said = capsys.readouterr().err
    expected = "units removed, gated and smaller model differ by 5.0e-01 of the logits' scale"
    assert said.startswith("headbench: error: nothing was saved: with ") and said.endswith(f"{expected}{advice}\n")
    assert said.count("\n") == 1 and not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--method", "michle", "--keep", "0.5"), "unknown method 'michle': did you mean 'michel'?"),
        (("--method", "michel,ae", "--keep", "0.5"), "--method michel,ae: expected one method"),
        (("--method", "michel", "--keep", "9"), "--keep 9: expected a share such as 0.5 or 50%, a number of units"),
        (("--method", "michel", "--keep", "x"), "--keep x: expected a share"),
        (("--method", "ae", "--keep", "auto"), "ae needs a number; methods that choose one themselves: cahp"),
        (("--method", "cahp", "--keep", "auto", "--uniform"), "--uniform: cahp itself decides how many heads"),
        (("--method", "none", "--keep", "0.5"), "--method none keeps 8 units, whatever --keep says"),
        (("--method", "random:recompute=1", "--keep", "0.5"), "a greedy schedule needs one draw, not 10: use draws=1"),
        (("--method", "voita", "--keep", "0.5", "--recover", "bias"), "method voita has no option 'recover'"),
        (("--method", "dsp-joint:cooldown=2", "--keep", "0.5"), "option cooldown=2: expected a number, at least 0"),
        (
            ("--method", "michel", "--keep", "0.5", "--training", "0.1"),
            "--training is for methods that train, and michel",
        ),
        (("--method", "michel", "--keep", "0.5", "--seed", "-1"), "--seed: expected a whole number, at least 0"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(prune, tmp_path, capsys, flags, said):
    try:
        code = prune(*flags)
    except SystemExit as error:
        code = error.code
    complaint = capsys.readouterr().err
    assert code == 2 and said in complaint and complaint.count("\n") == 1
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("existing", [".", "a", "a/b"])
def test_no_folder_stays_of_what_is_refused(prune, tmp_path, existing):
    (tmp_path / existing).mkdir(exist_ok=True, parents=True)
    before = set(tmp_path.rglob("*"))
    assert prune("--method", "random", "--keep", "99", out="a/b/c/small") == 2
    assert set(tmp_path.rglob("*")) == before
    assert prune("--method", "random", "--keep", "4", out="a/b/c/small") == 0
    assert (tmp_path / "a/b/c/small/README.md").exists()


def test_a_full_disk_is_one_line_and_leaves_nothing(prune, tmp_path, capsys, file_size_limit):
    with file_size_limit(4000):
        assert prune("--method", "michel", "--keep", "0.5") == 2
    assert capsys.readouterr().err == f"headbench: error: {tmp_path / 'small'}: File too large\n"
    assert not (tmp_path / "small").exists() and not list(tmp_path.glob(".*"))


def test_what_is_there_is_not_overwritten(prune, tmp_path, capsys):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "own.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for out, holds in (("small", " (it holds own.txt)"), ("file", "")):
        assert prune("--method", "michel", "--keep", "0.5", out=out) == 2
        assert capsys.readouterr().err.endswith(f"exists already; give a new or empty folder{holds}\n")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["file", "small", "own.txt"]


@pytest.mark.parametrize("link", [False, True])
def test_an_empty_folder_is_filled(prune, tmp_path, link):
    (tmp_path / "there").mkdir()
    if link:
        (tmp_path / "small").symlink_to("there")
    out = "small" if link else "there"
    assert prune("--method", "magnitude", "--keep", "0.5", out=out) == 0
    assert len(HeadMap.of(load_pruned(tmp_path / "there"))) == 4
    assert (tmp_path / "small").is_symlink() == link and not list(tmp_path.rglob(".*"))


def test_an_empty_folder_stays_the_same_one(prune, tmp_path, monkeypatch):
    """It may be a mount, or the current folder of a shell."""
    (tmp_path / "there").mkdir()
    before = (tmp_path / "there").stat().st_ino
    monkeypatch.chdir(tmp_path / "there")
    assert prune("--method", "magnitude", "--keep", "0.5", "--out", ".") == 0
    assert (tmp_path / "there").stat().st_ino == before and len(HeadMap.of(load_pruned(Path()))) == 4
    assert "--out there\n" in Path("README.md").read_text()


def test_an_empty_folder_is_no_model_before_all_is_in_it(prune, tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    moved, rename = [], Path.rename

    def note(path, target):
        moved.append(path.name)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", note)
    assert prune("--method", "magnitude", "--keep", "0.5") == 0
    assert len(moved) > 3 and moved.index("config.json") == len(moved) - 1


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_another_put_there_meanwhile_stays(prune, tmp_path, capsys, monkeypatch, before, what):
    """Such as a second command that was given the same folder, or the one that it makes."""
    out = tmp_path / "small"
    own = out / "own" if before or what == "folder" else out
    if before:
        out.mkdir()

    def save(*arguments):
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine")
        return save_pruned(*arguments)

    monkeypatch.setattr("bench.prune.saving.save_pruned", save)
    assert prune("--method", "magnitude", "--keep", "0.5") == 2
    said = f"headbench: error: --out {out}: something else has been put there while this model was pruned, so it is "
    assert capsys.readouterr().err == f"{said}not saved: prune it again to another folder\n"
    assert own.read_text() == "mine" and [path for path in tmp_path.rglob("*") if path.is_file()] == [own]


def test_a_name_may_be_as_long_as_the_system_allows(prune, tmp_path):
    assert prune("--method", "magnitude", "--keep", "0.5", out="x" * 255) == 0
    assert len(HeadMap.of(load_pruned(tmp_path / ("x" * 255)))) == 4


def test_others_may_read_the_checkpoint_and_it_names_no_folder_of_the_user(prune, tiny_model, tmp_path):
    before = os.umask(0o027)
    try:
        assert prune("--method", "magnitude", "--keep", "0.5") == 0
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "small").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".safetensors", ".json", ".md"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}
    for path in files:
        assert str(tiny_model.parent).encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("processor", "clock"), [(1.0, "in wall time."), (0.5, "in processor time, as other work took 50 %")]
)
def test_the_card_has_the_spread_of_times_and_the_load(prune, tmp_path, monkeypatch, processor, clock):
    """Laps of 1 to 5 ms of the model before and half of that after; of these the process ran ``processor``."""

    def time_forward(task, groups, device, repeats):
        wall = {0: [0.001, 0.002, 0.003, 0.004, 0.005], 1: [0.0005, 0.001, 0.0015, 0.002, 0.0025]}
        laps = {count: Laps(each, [processor * second for second in each]) for count, each in wall.items()}
        return ForwardTimes({1: laps, 8: laps}, True, {}, "float32")

    monkeypatch.setattr("bench.prune.times.time_forward", time_forward)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.25, 1.0, 1.0))
    assert prune("--method", "magnitude", "--keep", "0.5") == 0
    card = (tmp_path / "small" / "README.md").read_text()
    cells = [cell.strip() for cell in re.search(r"\| ms, batch 8, cpu (.*)", card)[1].split("|")[1:-1]]
    spreads = [f"{3 * k:.2f} ({2 * k:.2f} to {4 * k:.2f})" for k in (processor, processor / 2)]
    assert cells == [*spreads, "-50.0 %"]
    assert clock in card and "median of 5 forward passes" in card and "Load average before them: 3.2 on" in card


def test_waiting_is_the_wall_time_in_which_the_process_did_not_run():
    laps = [Laps([1.0, 2.0], [1.0, 1.0]), Laps([1.0], [1.0])]
    assert share_waited(laps) == pytest.approx(0.25)
    assert share_waited([Laps([1.0], [3.9])]) == 0  # on four threads


def test_a_damaged_pruned_checkpoint_is_named_in_one_line(prune, tmp_path, capsys):
    assert prune("--method", "michel", "--keep", "0.5") == 0
    (tmp_path / "small" / "pruning.json").write_text("{}")
    capsys.readouterr()
    assert prune("--method", "michel", "--keep", "0.5", out="other", model=tmp_path / "small") == 2
    complaint = capsys.readouterr().err
    assert "not a complete pruned model" in complaint and complaint.count("\n") == 1


@pytest.mark.parametrize(("text", "units"), [("0.5", 8), ("50%", 8), ("0.0", 0), ("1.0", 16), ("1", 1), ("16", 16)])
def test_a_share_has_a_point_or_a_percent_sign_and_a_number_has_neither(text, units):
    assert units_to_keep(text, 16) == units


@pytest.mark.parametrize("text", ["17", "-1", "1.5", "101%", "nan", "inf", "", "%"])
def test_a_budget_that_cannot_be_is_refused(text):
    with pytest.raises(InputError, match="expected a share"):
        units_to_keep(text, 16)


def test_a_share_of_less_than_half_a_unit_is_refused():
    with pytest.raises(InputError, match="--keep 3%: less than half of one of 16 units"):
        units_to_keep("3%", 16)
    assert units_to_keep("4%", 16) == 1


def test_weights_that_are_not_numbers_are_one_line(prune, tiny_model, tmp_path, capsys):
    broken = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    with torch.no_grad():
        broken.bert.encoder.layer[0].attention.self.query.weight[0, 0] = torch.nan
    broken.save_pretrained(tmp_path / "broken")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "broken")
    for method in ("michel", "magnitude"):
        assert prune("--method", method, "--keep", "0.5", model=tmp_path / "broken") == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith("headbench: error: nothing was pruned: ")
    assert not (tmp_path / "small").exists()


def test_what_a_method_refuses_is_one_line(plugin, prune, tmp_path, capsys):
    code = 'from methods import scorer\n\n@scorer("refusing", source="")\ndef refusing(view):\n'
    plugin(code + '    """Refuse."""\n    raise ValueError("Longformer has no maps of all tokens")\n')
    assert prune("--method", "refusing", "--keep", "0.5") == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said == "headbench: error: --method refusing: Longformer has no maps of all tokens"
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("where", "said"),
    [("target.description", "a smaller model could not be saved"), ("saving.save_pruned", "nothing was saved")],
)
def test_a_model_that_cannot_be_saved_is_one_line(prune, monkeypatch, tmp_path, capsys, where, said):
    def refuse(*_):
        raise ValueError("Mine is not a model class of transformers")

    monkeypatch.setattr(f"bench.prune.{where}", refuse)
    if where.startswith("start"):
        monkeypatch.setattr("bench.prune.prune.evaluate_model", None)  # before anything is evaluated or scored
    assert prune("--method", "magnitude", "--keep", "0.5") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == f"headbench: error: {said}: Mine is not a model class of transformers"
    assert not any(path.name.startswith(("small", ".headbench")) for path in tmp_path.iterdir())
