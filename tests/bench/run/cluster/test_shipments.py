"""What tasks read reaches a node that lacks it, by digest, and is the same there."""

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.records.errors import InputError
from bench.run import cluster
from bench.run.cluster import remote
from bench.run.cluster.remote import Ticket
from bench.run.cluster.template import relocated
from bench.suites.cells import open_task
from bench.suites.plugins import load_plugins
from tasks.models.cache import Cache
from tasks.request import TaskSpec

load_plugins()


@dataclass(frozen=True)
class Job:
    cell: Any


@pytest.fixture
def shipments(tmp_path, monkeypatch):
    """Those of the driver, for a task of its own; what is put in the object store is pickled."""
    name = "bench.run.cluster.shipments"
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(put=pickle.dumps, get=pickle.loads))
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(cluster, "shipments", None, raising=False)  # what another test imported, with Ray
    shipments = importlib.import_module(name)

    yield lambda spec, seed=0: (
        shipments.Shipments([job := Job(SimpleNamespace(task=spec, seed=seed))], tmp_path / "home"),
        job,
    )
    sys.modules.pop(name, None)


def at_node(shipments, job, cache: Cache, model: str = "") -> dict[tuple[str, str], str]:
    """Where a node finds what the task of ``job`` reads, by field and what it says, asking for what it lacks."""
    contents = shipments.contents(job)
    while True:
        sent = shipments.sent(model, *(content.key for content in contents))
        ticket = Ticket(0, b"", "run", {}, 1, None, "cpu", model, shipments.identity(model), contents, sent)
        lacks = remote._not_sent(ticket, cache)
        if not lacks and remote._cache_with_model(ticket, cache) is None:
            lacks = model
        if not lacks:
            return {(content.field, content.given): str(content.located(cache)) for content in contents}
        assert lacks not in sent
        shipments.send(lacks, contents)


def test_what_is_there_is_read_where_it_is(shipments, tiny_data, tiny_model, tmp_path):
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data))
    found = at_node(*shipments(spec), Cache(tmp_path / "node"))
    assert found == {(field, str(path)): str(path) for field, path in (("model", tiny_model), ("data", tiny_data))}
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "splits", "copy in a mirror"])
def test_what_is_missing_or_other_is_fetched_and_is_the_same_task(shipments, tiny_data, tiny_model, tmp_path, kind):
    private = tmp_path / "private"
    shutil.copytree(tiny_model, private / "someone--model")
    shutil.copy(tiny_data, private / "texts.jsonl")
    (private / "folder" / "below").mkdir(parents=True)
    lines = tiny_data.read_text().splitlines(keepends=True)
    for split, some in (("train", lines[:150]), ("test", lines[150:])):
        (private / "folder" / "below" / f"{split}.jsonl").write_text("".join(some))
    given = {
        "file": {"data": str(private / "texts.jsonl"), "model": str(private / "someone--model")},
        "folder": {"data": str(private / "folder"), "model": str(private / "someone--model")},
        "splits": {name: str(private / "folder" / "below" / f"{name}.jsonl") for name in ("train", "test")},
        "copy in a mirror": {"data": "folder", "model": "someone/model", "mirror": str(private)},
    }[kind]
    spec = TaskSpec(task="classification", **given)
    here = open_task(spec)
    fingerprints, names = here.fingerprints(0), (here.data_name, here.model_name)
    made, job = shipments(spec)
    contents = made.contents(job)
    for content in contents:
        made.send(content.key, contents)
    shutil.rmtree(private / "folder")
    (private / "texts.jsonl").write_text("other")
    (private / "someone--model" / "config.json").unlink()
    moved = at_node(made, job, Cache(tmp_path / "node"))
    assert moved.keys() == {(name, value) for name, value in given.items() if name != "mirror"}
    there = open_task(relocated(spec, moved))
    assert (there.data_name, there.model_name) == names and there.fingerprints(0) == fingerprints


def test_folders_of_task_files_are_sent_and_are_the_same_tasks(shipments, tiny_texts, tiny_language_model, tmp_path):
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"question": "a red king", "answer": 0}\n')
    mine = tmp_path / "mine"
    (mine / "__pycache__").mkdir(parents=True)
    (mine / "__pycache__" / "code.pyc").write_bytes(b"of this machine")
    task = f"""
task: mine
dataset_path: json
dataset_kwargs: {{data_files: {{test: {documents}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: question
doc_to_choice: [red, attic]
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""
    (mine / "mine.yaml").write_text(task)
    own = {"data": str(tiny_texts), "model": str(tiny_language_model)}
    spec = TaskSpec(task="harness", **own, harness_tasks=("headbench_copy", str(mine)))
    here = open_task(spec)
    fingerprints, name = here.fingerprints(0), here.data_name
    made, job = shipments(spec)
    for content in (contents := made.contents(job)):
        made.send(content.key, contents)
    mine.rename(tmp_path / "away")
    moved = at_node(made, job, Cache(tmp_path / "node"))
    there = relocated(spec, moved)
    assert there.harness_tasks[0] == "headbench_copy" and there.harness_tasks[1].startswith(str(tmp_path / "node"))
    assert [path.name for path in Path(there.harness_tasks[1]).rglob("*")] == ["mine.yaml"]
    assert open_task(there).fingerprints(0) == fingerprints and open_task(there).data_name == name


def test_a_folder_that_was_renamed_is_fetched_under_its_new_name(shipments, tiny_data, tiny_model, tmp_path):
    """A node keeps what an earlier run sent, whose folder of the same content had another name."""
    node, names = Cache(tmp_path / "node"), ("before", "after")
    shutil.copytree(tiny_model, tmp_path / names[0])
    for name in names:
        spec = TaskSpec(task="classification", model=str(tmp_path / name), data=str(tiny_data))
        made, job = shipments(spec)
        for content in (contents := made.contents(job)):
            made.send(content.key, contents)
        (tmp_path / name).rename(tmp_path / "away")
        there = relocated(spec, at_node(made, job, node))
        assert there.model.endswith(f"/{name}") and open_task(there).model_name == name
        (tmp_path / "away").rename(tmp_path / names[1])


@pytest.mark.parametrize("change", [lambda file: file.write_text("{}"), lambda file: file.unlink()])
def test_a_copy_that_was_changed_on_a_node_is_fetched_again(shipments, tiny_data, tiny_model, tmp_path, change):
    private = shutil.copytree(tiny_model, tmp_path / "model")
    spec = TaskSpec(task="classification", model=str(private), data=str(tiny_data))
    made, job = shipments(spec)
    (content,) = (each for each in made.contents(job) if each.field == "model")
    made.send(content.key, [content])
    private.rename(tmp_path / "away")
    node = Cache(tmp_path / "node")
    config = Path(at_node(made, job, node)["model", str(private)]) / "config.json"
    right = config.read_bytes()
    change(config)
    assert content.located(node) is None
    assert at_node(made, job, node)["model", str(private)] == str(config.parent) and config.read_bytes() == right


def test_a_folder_with_more_than_the_driver_has_is_not_the_same(shipments, tiny_data, tiny_model, tmp_path):
    """A task would read that too. Hidden files are neither read nor sent."""
    folder = tmp_path / "texts"
    folder.mkdir()
    shutil.copy(tiny_data, folder / "train.jsonl")
    (folder / ".hidden").write_text("x")
    made, job = shipments(TaskSpec(task="classification", model=str(tiny_model), data=str(folder)))
    (content,) = (each for each in made.contents(job) if each.field == "data")
    assert content.files == ("train.jsonl",)
    made.send(content.key, [content])
    node = Cache(tmp_path / "node")
    (folder / ".other").write_text("x")
    assert content.located(node) == folder
    shutil.copy(tiny_data, folder / "test.jsonl")
    assert content.located(node) is None
    there = Path(at_node(made, job, node)["data", str(folder)])
    assert [path.name for path in there.iterdir()] == ["train.jsonl"]
    (there / "more.jsonl").write_text("x")
    assert content.located(node) is None
    assert at_node(made, job, node)["data", str(folder)] == str(there) and not (there / "more.jsonl").exists()


def test_data_that_is_changed_meanwhile_is_not_sent(shipments, tiny_data, tiny_model, tmp_path):
    data = tmp_path / "texts.jsonl"
    shutil.copy(tiny_data, data)
    made, job = shipments(TaskSpec(task="classification", model=str(tiny_model), data=str(data)))
    contents = made.contents(job)
    data.write_text("other")
    (key,) = (each.key for each in contents if each.field == "data")
    with pytest.raises(InputError, match="was changed since this run began"):
        made.send(key, contents)


def test_a_trained_model_travels_to_a_node_and_back(shipments, tiny_data, tiny_model, tmp_path):
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True)
    made, job = shipments(spec)
    model = made.model(job)
    assert not made.here(model) and not made.whole(model)
    nodes = [Cache(tmp_path / name) for name in ("first", "second")]
    nodes[0].folder(model, lambda empty: shutil.copytree(tiny_model, empty, dirs_exist_ok=True))
    made.keep(model, remote.pack(model, nodes[0].root, "cpu"))
    assert made.here(model) and made.whole(model)
    at_node(made, job, nodes[1], model)
    content = {path.name: path.read_bytes() for path in nodes[0].path(model).iterdir()}
    assert {path.name: path.read_bytes() for path in nodes[1].path(model).iterdir()} == content
    assert made.sent(model)
    made.used(job)
    assert not made.sent(model)  # no other job needs it


@pytest.mark.parametrize("meanwhile", [False, True])
def test_the_model_of_the_driver_is_used_beside_another_that_a_node_has(
    shipments, tiny_data, tiny_model, tmp_path, monkeypatch, capsys, meanwhile
):
    """Else methods would be compared on two models: the seed gives other weights on another processor.

    The other one stays: jobs of another driver may be using it. meanwhile: whether it comes while this one does.
    """
    made, job = shipments(TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True))
    model = made.model(job)
    home, node = Cache(tmp_path / "home"), Cache(tmp_path / "node")

    def write(content: str, empty: Path) -> None:
        (empty / "model.safetensors").write_text(content)

    home.folder(model, partial(write, "of the driver"))
    build = Cache.folder
    if meanwhile:

        def folder(cache: Cache, key: str, what) -> Path:
            if cache.root == node.root:
                build(cache, key, partial(write, "of another"))
            return build(cache, key, what)

        monkeypatch.setattr(Cache, "folder", folder)
    else:
        node.folder(model, partial(write, "of another"))
    at_node(made, job, node, model)
    ticket = Ticket(0, b"", "run", {}, 1, None, "cpu", model, made.identity(model), (), {})  # it is sent only once
    place = remote._cache_with_model(ticket, node)
    assert place is not None and (place.path(model) / "model.safetensors").read_text() == "of the driver"
    assert (node.path(model) / "model.safetensors").read_text() == "of another"
    assert capsys.readouterr().err == "" and len(list(node.root.glob("*/**/*.safetensors"))) == 2


def test_a_model_that_was_altered_is_not_sent(shipments, tiny_data, tiny_model, tmp_path, capsys):
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True)
    made, job = shipments(spec)
    model = made.model(job)
    home, node = Cache(tmp_path / "home"), Cache(tmp_path / "node")
    for cache in (home, node):
        cache.folder(model, lambda empty: shutil.copytree(tiny_model, empty, dirs_exist_ok=True))
        with (cache.path(model) / "model.safetensors").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
    assert made.here(model) and not made.whole(model)
    made.send(model, ())
    assert not made.sent(model) and not made.here(model)  # so that the next ticket does not promise it
    said = capsys.readouterr().err
    assert "model.safetensors is altered: not sent" in said and said.count("\n") == 1
    made.keep(model, remote.pack(model, node.root, "cpu"))
    assert not made.here(model)
    node.folder(model, lambda empty: shutil.copytree(tiny_model, empty, dirs_exist_ok=True))  # makes it again
    made.keep(model, remote.pack(model, node.root, "cpu"))
    made.send(model, ())
    assert made.here(model) and made.sent(model)
