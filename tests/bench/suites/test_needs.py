"""What a suite needs is found or told to be missing, all at once, before anything is loaded."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from bench.__main__ import main
from bench.records.errors import InputError
from bench.suites import hub
from bench.suites.files import load_suite
from bench.suites.needs import look_for, needs_in_words, needs_of
from bench.suites.suite import Suite
from tasks.request import TaskSpec

SUITE = """
methods = "none"
seeds = 1
[[tasks]]
task = "classification"
model = "pypi:no-such-package"
data = "org/data"
finetune = true
[[tasks]]
task = "mnli"
model = "meta-llama/small"
data = "{data}"
finetune = true
[[tasks]]
task = "harness"
model = "meta-llama/small"
data = "texts.txt"
harness_tasks = ["piqa", "headbench_copy"]
"""
MISSING = ["pypi:no-such-package", "org/data", "meta-llama/small", "texts.txt", "piqa"]


@pytest.fixture(autouse=True)
def nothing_cached(tmp_path, monkeypatch):
    """No cache of the hub, and no answer remembered."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    hub.out_of_reach.cache_clear()
    yield
    hub.out_of_reach.cache_clear()


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def unreachable(monkeypatch):
    """The hub cannot be reached, and each attempt is counted."""
    attempts = []

    class Session:
        def head(self, url, timeout):
            attempts.append(timeout)
            raise ConnectionError("no route to it")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils.get_session", Session)
    return attempts


@pytest.fixture
def online(monkeypatch):
    """A hub that answers for any id what a test puts here, by id."""
    answers = {}

    def answer(api, name, **_):
        if isinstance(found := answers.get(name, RepositoryNotFoundError), type):
            raise found.__new__(found)  # without a response
        return found

    def allowed(api, name, **_):
        if not answers[name].allowed:
            raise GatedRepoError.__new__(GatedRepoError)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: SimpleNamespace(head=lambda url, timeout: None))
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", answer)
    monkeypatch.setattr("huggingface_hub.HfApi.auth_check", allowed)
    return answers


def repository(gated=False, allowed=True, **sizes):
    files = [SimpleNamespace(rfilename=name.replace("_", "."), size=size) for name, size in sizes.items()]
    return SimpleNamespace(gated=gated, allowed=allowed, siblings=files)


def own(model: str = "", data: str = "", mirror: str = "", **fields) -> Suite:
    spec = TaskSpec(task="classification", model=model, data=data, mirror=str(mirror), **fields)
    return Suite(name="own", tasks=(spec,), methods="none", seeds=(0,))


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("list", "cells")], ids=" ".join)
def test_all_that_is_missing_is_told_at_once(command, offline, tiny_data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text(SUITE.format(data=tiny_data))
    verb = command[:2] if command[0] == "list" else command[:1]
    assert main([*verb, "--suite", "mine.toml", *command[len(verb) :], "--out", "out"]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first.startswith("headbench: error: 5 things that suite mine needs are missing")
    for name, line in zip(MISSING, lines, strict=False):
        assert line.startswith(f"  {name}: ")
    assert "pip install no-such-package" in lines[0]
    assert all("--mirror DIR" in lines[place] for place in (1, 2, 4))
    assert "https://huggingface.co/meta-llama/small" in lines[2] and "hf auth login" in lines[2]
    assert "hf auth login" not in lines[1]
    assert lines[5:] == [f"  found: data {tiny_data}: {tiny_data}", "  found: documents headbench_copy: lm-eval"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["mine.toml"]
    assert not (tmp_path / "out").exists()


def test_one_thing_that_is_missing_is_one_line(offline, complaint, tiny_data):
    said = complaint("run", "--task", "classification", "--model", "org/model", "--data", tiny_data)
    assert said.startswith("org/model: no such folder, not in the cache of the hub") and "HF_HUB_OFFLINE is set" in said


def test_a_hub_that_cannot_be_reached_is_tried_once(unreachable, complaint, tmp_path):
    with pytest.raises(ValueError, match=r"org/model: .*no route to it.* org/data: .*no route to it"):
        look_for(own("org/model", "org/data"))
    assert unreachable == [hub.TIMEOUT]


@pytest.mark.parametrize("layout", ["org/{}", "org--{}", "{}"])
def test_a_mirror_has_what_is_needed(offline, tmp_path, tiny_model, tiny_data, layout):
    model, data = (tmp_path / "mirror" / layout.format(name) for name in ("model", "data"))
    shutil.copytree(tiny_model, model)
    data.mkdir(parents=True)
    suite = own("org/model", "org/data:part", mirror=tmp_path / "mirror")
    with pytest.raises(ValueError, match="org/data:part: no such file or folder"):
        look_for(suite)
    (data / "part").mkdir()
    assert [found.place for found in look_for(suite).values()] == [str(model), str(data / "part")]


def test_a_folder_without_weights_is_missing_something(tmp_path, tiny_model, tiny_data):
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no \.safetensors weights in it"):
        look_for(own(str(tmp_path / "model"), str(tiny_data)))


def test_what_was_downloaded_before_is_found_without_the_hub(offline, tmp_path, tiny_model):
    repository = tmp_path / "hub" / "models--org--model"
    commit = "a" * 40
    shutil.copytree(tiny_model, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    (tmp_path / "datasets" / "org___my_data" / "part" / "0.0.0" / "hash").mkdir(parents=True)
    for data in ("org/MyData:part", "org/MyData"):
        found = look_for(own("org/model", data))
        assert {each.place for each in found.values()} == {"cache of the hub"}
    with pytest.raises(ValueError, match="org/MyData:other"):  # another configuration was not downloaded
        look_for(own("org/model", "org/MyData:other"))
    index = repository / "snapshots" / commit / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}))
    with pytest.raises(ValueError, match="org/model: no such folder"):  # one of two files
        look_for(own("org/model", "org/MyData"))
    index.unlink()
    (repository / "snapshots" / commit / "config.json").unlink()  # a download that was stopped
    with pytest.raises(ValueError, match="org/model: no such folder"):
        look_for(own("org/model", "org/MyData"))


@pytest.mark.parametrize("name", ["*", "a**b", "data/**", "org/set:[a"])
def test_names_with_signs_of_patterns_find_no_other_set(offline, tmp_path, name):
    (tmp_path / "datasets" / "org___set" / "default" / "0.0.0" / "made").mkdir(parents=True)
    (tmp_path / "datasets" / "set" / "default" / "0.0.0" / "made").mkdir(parents=True)
    assert not hub._is_cached("data", *name.partition(":")[::2])
    assert hub._is_cached("data", "org/set", "")


def test_the_hub_is_asked_for_what_is_not_here(online):
    online["org/model"] = repository(model_safetensors=3 * 10**9, config_json=10, model_bin=10**10)
    online["org/data"] = repository(train_parquet=10**9)
    model, data = look_for(own("org/model", "org/data")).values()
    assert (model.place, model.download) == ("hub", 3 * 10**9 + 10)
    assert (data.place, data.download) == ("hub", 0)  # it is streamed


def test_a_download_that_does_not_fit_ends_the_run_before_anything_is_loaded(
    online, complaint, tmp_path, tiny_data, monkeypatch
):
    online["org/model"] = repository(model_safetensors=3 * 10**9, model_bin=10**12)
    asked = []

    def free(size):
        monkeypatch.setattr("shutil.disk_usage", lambda path: asked.append(path) or SimpleNamespace(free=size))

    free(3 * 10**9)
    assert look_for(own("org/model", str(tiny_data)))  # as large as what is free
    free(2 * 10**9)
    for dry in ((), ("--dry-run",)):
        said = complaint("run", "--task", "classification", "--model", "org/model", "--data", tiny_data, *dry)
        assert (
            "org/model: " in said and "3.0 GB would be downloaded to " in said and "2.0 GB are free: make room" in said
        )
    assert set(asked) == {tmp_path}  # the cache of the hub is not there yet
    online["org/other"] = online["org/model"]
    one, other = (own(name, str(tiny_data)) for name in ("org/model", "org/other"))
    both = one.model_copy(update={"tasks": one.tasks + other.tasks})
    free(6 * 10**9)
    assert look_for(both)
    free(5 * 10**9)
    with pytest.raises(InputError, match=r"from the hub: 6\.0 GB would be downloaded to .*, where 5\.0 GB are free"):
        look_for(both)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.out_of_reach.cache_clear()
    assert "GB" not in complaint("run", "--task", "classification", "--model", "org/model", "--data", tiny_data)


def test_a_model_of_the_hub_without_safetensors_is_missing_something(online, tiny_data):
    online["org/model"] = repository(config_json=10, model_bin=10**10)
    with pytest.raises(ValueError, match=r"org/model: no such folder, the hub has no \.safetensors weights of it"):
        look_for(own("org/model", str(tiny_data)))


def test_a_configuration_without_an_id_is_one_line(online):
    with pytest.raises(ValueError, match=r":mnli: no such file or folder, and before the configuration there is no id"):
        look_for(own("", ":mnli"))


def test_a_licence_that_was_not_accepted_is_told_and_one_that_was_is_not(online, tiny_data):
    online["org/model"] = repository(gated="manual", allowed=False)
    with pytest.raises(ValueError, match=r"its licence has to be accepted on https://huggingface\.co/org/model"):
        look_for(own("org/model", str(tiny_data)))
    online["org/model"] = repository(gated="manual", model_safetensors=1)
    assert look_for(own("org/model", str(tiny_data)))


def test_an_id_that_the_hub_does_not_have(online, tiny_data):
    with pytest.raises(ValueError, match="org/model: no such folder, the hub has no such model, or it is private"):
        look_for(own("org/model", str(tiny_data)))


def test_files_of_splits_are_needed_each(tiny_data, tmp_path):
    with pytest.raises(ValueError, match=r"--test .*gone.jsonl: no such file"):
        look_for(own(train=str(tiny_data), test=str(tmp_path / "gone.jsonl")))


def test_suites_say_what_they_need_without_looking(offline, capsys):
    assert needs_of(load_suite("mini")) == [] and needs_in_words(load_suite("mini")).startswith("nothing")
    assert main(["list", "suites"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in ("real", "amp"):
        for need in needs_of(load_suite(name)):
            assert need.name in said
    assert "meta-llama/Llama-2-7b-hf (with a licence to accept)" in said
