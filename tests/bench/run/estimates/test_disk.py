"""The room that records are expected to take, beside what they take."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification

from bench.records.errors import InputError
from bench.records.storage.store import Store
from bench.run.estimates.disk import RECORD, disk_use, records_of
from bench.run.jobs import CellJob, TrainJob
from bench.suites.cells import plan
from bench.suites.parse import parse_methods
from bench.suites.plugins import load_plugins
from bench.suites.suite import Suite
from tasks.models.cache import Cache
from tasks.request import TaskSpec

load_plugins()


@pytest.mark.parametrize("task", ["classification", "translation"])
def test_what_is_kept_of_each_example_is_counted(task, tmp_path, tiny_model, tiny_data, tiny_marian, tiny_pairs):
    own = {
        "classification": TaskSpec(task=task, model=str(tiny_model), data=str(tiny_data)),
        "translation": TaskSpec(task=task, model=str(tiny_marian), data=str(tiny_pairs), text=("en", "hu"), limit=20),
    }
    wanted = {"levels": (0, 0.5, 1), "seeds": (0,), "calibration": 4}
    cells = plan(Suite(name="tiny", tasks=(own[task],), methods=parse_methods("random:draws=2"), **wanted), "cpu")
    job = CellJob(cells[0], tmp_path / "cache", None)
    job.write(job(), store := Store(tmp_path))
    (path,) = store.paths()
    arrays = load_file(path.with_suffix(".safetensors"))
    kept = sum(array.nbytes for name, array in arrays.items() if not name.startswith("scores"))
    padded = len(arrays["outcomes"].reshape(-1, arrays["outcomes"].shape[-1]))  # a byte may not be full
    assert kept - padded <= records_of(cells) - RECORD <= kept
    assert path.stat().st_size < RECORD
    assert not disk_use([job], Cache(tmp_path).root, tmp_path)  # no model is trained


def test_records_without_a_model_to_train_must_fit_too(tmp_path, tiny_model, tiny_data, monkeypatch):
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data))
    wanted = {"levels": (0, 1), "seeds": (0,), "calibration": 4}
    (cell,) = plan(Suite(name="tiny", tasks=(spec,), methods=parse_methods("none"), **wanted), "cpu")
    job = CellJob(cell, tmp_path / "cache", None)
    monkeypatch.setattr("bench.run.estimates.disk.LITTLE", 0)
    assert disk_use([job], tmp_path / "cache", tmp_path) == f"about 0 MB for records in {tmp_path}"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match=r"disk: about 0 MB for records in .* are needed, 0 MB are free"):
        disk_use([job], tmp_path / "cache", tmp_path)


def test_models_are_trained_and_kept_in_float32(tmp_path, tiny_model, tiny_data):
    half = tmp_path / "half"
    shutil.copytree(tiny_model, half)
    AutoModelForSequenceClassification.from_pretrained(tiny_model).half().save_pretrained(half)
    assert (half / "model.safetensors").stat().st_size < 0.6 * (tiny_model / "model.safetensors").stat().st_size
    told = []
    for model in (tiny_model, half):
        spec = TaskSpec(task="classification", model=str(model), data=str(tiny_data), finetune=True)
        wanted = {"levels": (0, 1), "seeds": (0, 1), "calibration": 4}
        cells = plan(Suite(name="tiny", tasks=(spec,), methods=parse_methods("none"), **wanted), "cpu")
        jobs = [TrainJob(cell, tmp_path / "cache") for cell in cells]
        told.append(disk_use(jobs, tmp_path / "cache", tmp_path))
    assert told[0] == told[1] and "MB for 2 models" in told[0]
    suite = Suite(name="built in", tasks=(TaskSpec(task="mnli"),), methods=parse_methods("none"), **wanted)
    small = [TrainJob(cell, tmp_path / "cache") for cell in plan(suite, "cpu")]
    assert disk_use([*small, *jobs], tmp_path / "cache", tmp_path) == told[1]  # built-in models take next to nothing
