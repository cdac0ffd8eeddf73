"""No code of others runs: neither that of a model's folder nor that of task files, unless those are trusted."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from lm_eval.utils import apply_template

from bench.__main__ import main
from tasks.errors import TaskError
from tasks.harness.run import Harness
from tasks.models import checkpoint

TASK = {
    "task": "mine",
    "dataset_path": "json",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "question",
    "doc_to_choice": ["a", "b"],
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc"}],
}


@pytest.fixture
def ran(tmp_path) -> Path:
    """A file that exists once code of others ran."""
    return tmp_path / "ran"


@pytest.fixture
def model(tmp_path, ran) -> Path:
    """A model folder that needs code of its own."""
    folder = tmp_path / "model"
    folder.mkdir()
    auto = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "strange", "auto_map": auto}))
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').write('x')\nclass Config: pass\n")
    return folder


def test_code_of_a_model_is_refused_and_never_asked_about(model, ran, tiny_data, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    assert main(["list", "cells", "--task", "classification", "--model", str(model), "--data", str(tiny_data)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Python code that comes with it, which is never run" in said
    assert sys.stdin.tell() == 0 and not ran.exists()


def test_code_of_a_tokenizer_is_refused(tmp_path, ran, tiny_model, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    config = json.loads((tiny_model / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings = {"tokenizer_class": "Strange", "auto_map": {"AutoTokenizer": ["code.Strange", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w').write('x')\nclass Strange: pass\n")
    with pytest.raises(TaskError, match="tokenizer"):
        checkpoint.load_tokenizer(tmp_path)
    assert not ran.exists()


@pytest.fixture
def folder(tmp_path, ran) -> Path:
    """A folder of task files with code beside them."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows = [{"question": f"q{n}", "answer": n % 2} for n in range(4)]
    (folder / "data.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').write('x')\ndef docs(rows): return rows\n")
    return folder


def write(folder: Path, more: str = "", name: str = "mine.yaml", **fields) -> None:
    task = TASK | {"dataset_kwargs": {"data_files": {"test": str(folder / "data.json")}}} | fields
    (folder / name).write_text(yaml.safe_dump(task) + more)


@pytest.mark.parametrize("more", ["process_docs: !function code.docs\n", "x: &a {y: [!function code.docs]}\nz: *a\n"])
def test_functions_of_task_files_are_refused_unless_trusted(folder, ran, more):
    write(folder, more)
    with pytest.raises(
        TaskError, match=r"mine.yaml: line \d+: !function code.docs runs Python code .* --trust-task-code"
    ):
        Harness(["mine"], folders=[folder])
    assert not ran.exists()


def test_code_that_transformers_would_generate_with_is_refused(folder):
    write(folder, output_type="generate_until", generation_kwargs={"custom_generate": "elsewhere", "until": ["."]})
    with pytest.raises(TaskError, match=r"mine.yaml: line \d+: custom_generate, which transformers loads, runs Python"):
        Harness(["mine"], folders=[folder])


def test_trusted_functions_run(folder, ran):
    write(folder, "process_docs: !function code.docs\n")
    assert list(Harness(["mine"], folders=[folder], trust=True).tasks) == ["mine"] and ran.exists()


def test_functions_of_included_files_are_refused(folder, ran, tmp_path):
    (tmp_path / "base.yml").write_text(f"include: {tmp_path / 'deep.txt'}\n")
    (tmp_path / "deep.txt").write_text("process_docs: !function tasks.code.docs\n")
    write(folder, include="../base.yml")
    with pytest.raises(TaskError, match=r"deep\.txt: line 1"):
        Harness(["mine"], folders=[folder])
    assert not ran.exists()


def test_a_tilde_in_an_include_is_a_name(folder, ran):
    """As for lm-eval, which would load the file in a folder called ~."""
    (folder / "~").mkdir()
    (folder / "~" / "base.txt").write_text("process_docs: !function tasks.code.docs\n")
    write(folder, include="~/base.txt")
    with pytest.raises(TaskError, match=r"base\.txt: line 1"):
        Harness(["mine"], folders=[folder])
    write(folder, include="~nobody/base.txt")
    with pytest.raises(TaskError, match=r"mine\.yaml: line \d+: include names .*base\.txt, which does not exist"):
        Harness(["mine"], folders=[folder])
    assert not ran.exists()


def test_metrics_that_are_scripts_are_refused(folder):
    for metrics in ([{"metric": "./code"}], [{"metric": "acc", "hf_evaluate": True}]):
        write(folder, metric_list=metrics)
        with pytest.raises(TaskError, match="of the library evaluate"):
            Harness(["mine"], folders=[folder])


def test_files_without_code_and_tasks_of_lm_eval_load(folder):
    write(folder, metric_list=[{"metric": "acc", "hf_evaluate": False}])
    assert list(Harness(["mine", "headbench_copy"], folders=[folder]).tasks) == ["mine", "headbench_copy"]


def test_templates_reach_nothing_of_python(folder):
    write(folder, doc_to_text="{{ question.__class__.__mro__ }}")
    with pytest.raises(TaskError, match="unsafe"):
        Harness(["mine"], folders=[folder])
    assert apply_template("{{ a | regex_replace('b', 'c') }} {{ a.upper() }}", {"a": "ab"}) == "ac AB"


def test_a_suite_file_cannot_trust(tmp_path, complaint):
    (tmp_path / "s.toml").write_text('[[tasks]]\ntask = "harness"\nharness_tasks = ["x"]\ntrust_task_code = true\n')
    assert "trust_task_code is for the command line" in complaint("list", "cells", "--suite", tmp_path / "s.toml")
