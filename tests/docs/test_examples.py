"""The selector, the joint method and the training that the documents show can be run."""

from __future__ import annotations

import shutil

import pytest
import torch

from bench.__main__ import main
from methods.heads import HeadMap, load_pruned
from tests.docs.documents import CONTRIBUTING, ROOT, Document


@pytest.mark.parametrize("name", ["best-of-ten", "magnitude-retrained"])
def test_methods_of_other_shapes_keep_as_many_units_as_asked(name, place, plugin):
    plugin(next(code for code in CONTRIBUTING.blocks("python") if f'"{name}"' in code))
    flags = ["--levels", "0.5", "--training", "0.2", "--no-latency"]
    assert place.run("--methods", name, *flags) == 0
    (record,) = place.records().values()
    assert [len(kept) for kept in record["result"]["kept"]] == record["result"]["removed"][::-1] == [8, 4, 0]
    trained = (record["result"]["method_training"] or {"passes": {"backward": 0}})["passes"]["backward"]
    assert (trained > 0) == (name == "magnitude-retrained")


@pytest.mark.slow
def test_a_pruned_model_is_trained_on_and_saved(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = ["--task", "classification", "--model", str(place.model), "--data", str(place.data)]
    assert main(["prune", *own, "--method", "magnitude", "--keep", "4", "--out", "smaller"]) == 0
    shutil.copy(place.data, "train.jsonl")
    (code,) = Document(ROOT / "docs" / "your-own-data.md").blocks("python")
    exec(compile(code, "docs/your-own-data.md", "exec"), {"__name__": "example"})
    before, after = load_pruned("smaller"), load_pruned("trained")
    assert HeadMap.of(after).shape == HeadMap.of(before).shape and len(HeadMap.of(after)) == 4
    assert not torch.equal(before.classifier.weight, after.classifier.weight)
