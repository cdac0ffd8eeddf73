"""A joint method that trains nothing: its cost counts as scoring, and its records say that weights were recovered."""

from __future__ import annotations

from safetensors.numpy import load_file

from bench.__main__ import main
from bench.analysis.kinds import kind
from bench.records.storage.current import finished, read_current

SOLVES = '''
import torch
from methods import Trained, joint
from methods.heads import find_mlps

@joint("solves", source="test", training_free=True)
def solves(view, budgets):
    """Looks at each text once, and removes a neuron of each layer beside the heads."""
    with torch.no_grad():
        for batch in view.batches:
            view.logits(batch)
    for keep in budgets:
        mask = torch.arange(len(view.heads)) < keep
        neurons = {mlp.name: torch.arange(mlp.width) > 0 for mlp in find_mlps(view.model)}
        yield Trained(mask, view.model, {"solved": 2.0}, neurons)
'''


def test_its_cost_is_that_of_scoring_and_its_report_that_of_recovery(place, plugin):
    plugin(SOLVES)
    assert place.run("--methods", "solves,dsp-joint,michel", "--training", "0.1") == 0
    found = {record.cell.label: record for record in finished(read_current(place.out)[0])}
    assert {label: kind(record.cell) for label, record in found.items()} == {
        "solves": "recovered",
        "dsp-joint": "trained",
        "michel": "score",
    }
    record = found["solves"]
    assert record.cell.trained is None and record.result.method_training is None
    assert (record.result.passes.forward, record.result.passes.backward) == (record.result.calibration, 0)
    assert record.measured.scoring_seconds > 0 == record.measured.method_training_seconds
    trained = found["dsp-joint"].result.method_training
    assert list(trained.traces) == found["dsp-joint"].result.removed[1:]
    assert all(trace.steps[-1] == trained.reports[count]["steps"] for count, trace in trained.traces.items())
    assert record.result.recovery == {count: {"solved": 2.0} for count in record.result.removed[1:]}
    (path,) = (place.out / "records").glob("*/solves/*.safetensors")
    kept = [array for name, array in load_file(path).items() if name.startswith("neurons.")]
    assert kept and all(array[1:, 0].sum() == 0 and array[1:, 1:].all() for array in kept)


def test_it_sees_nothing_to_train_on(place, plugin):
    plugin(SOLVES.replace("    with torch.no_grad", "    assert view.training is None\n    with torch.no_grad"))
    assert place.run("--methods", "solves") == 0


def test_what_it_reports_is_kept_as_numbers(place, plugin):
    plugin(SOLVES.replace('{"solved": 2.0}', '{"converged": True}'))
    assert place.run("--methods", "solves") == 0
    (record,) = finished(read_current(place.out)[0])
    assert set(map(str, record.result.recovery.values())) == {"{'converged': 1.0}"}


def test_how_long_others_train_does_not_change_its_key(place, plugin, capsys):
    plugin(SOLVES)
    keys = []
    for share in ("0.1", "0.2"):
        assert main(["list", "cells", *place.cells("--methods", "solves,dsp-joint", "--training", share)]) == 0
        lines = map(str.split, capsys.readouterr().out.splitlines())
        keys.append({name.split("/")[1]: key for _, key, name in lines})
    assert keys[0]["solves"] == keys[1]["solves"] and keys[0]["dsp-joint"] != keys[1]["dsp-joint"]
