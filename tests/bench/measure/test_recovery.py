"""Recovered choices through a whole run: their weights are measured, and what they cost counts as scoring."""

from __future__ import annotations

from safetensors.numpy import load_file

from bench.analysis.curves import removes
from bench.measure.exactness import TOLERANCE
from bench.records.storage.current import finished, read_current


def test_records_say_what_was_recovered_and_what_it_cost(place):
    assert place.run("--methods", "michel,michel:recover=bias,michel:recover=lstsq") == 0
    plain, bias, whole = (
        next(record for record in finished(read_current(place.out)[0]) if record.cell.label == label)
        for label in ("michel", "michel:recover=bias", "michel:recover=lstsq")
    )
    assert plain.result.recovery is None and "recover" not in plain.cell.options
    examples = plain.result.calibration
    judged = 3 * (examples // 4)  # held-out texts: unpruned, and without and with the new weights
    for record, passed in ((bias, examples), (whole, 2 * examples + judged)):  # for each level that lacks heads
        result = record.result
        assert result.orders == plain.result.orders and result.quality[0][0] == plain.result.quality[0][0]
        assert list(result.recovery) == result.removed[1:]
        assert all(of_level.keys() == {"recovered", "unchanged"} for of_level in result.recovery.values())
        assert result.passes.forward == plain.result.passes.forward + 2 * passed
        assert result.gap <= TOLERANCE
        assert record.cell.options["recover"] == record.cell.label.rpartition("=")[2]
    sizes = [record.result.parameters for record in (plain, bias, whole)]
    assert sizes[0] == sizes[1] == sizes[2]
    last = plain.result.removed[-1]
    assert bias.result.recovery[last]["recovered"] > 0 and sum(whole.result.recovery[last].values()) > 0


def test_a_split_of_heads_and_neurons_is_kept_beside_the_record(place):
    place.timed = True
    assert place.run("--methods", "kwon,kwon:parts=both") == 0  # smaller models are made again to be timed
    heads, both = (
        next(record for record in finished(read_current(place.out)[0]) if record.cell.label == label)
        for label in ("kwon", "kwon:parts=both")
    )
    assert removes(heads) == "heads" and removes(both) == "heads and neurons"
    assert heads.cell.trained is None and heads.result.method_training is None
    assert both.result.gap <= TOLERANCE and both.measured.latency is not None
    path = next(path for path in (place.out / "records").rglob("*.safetensors") if "both" in str(path))
    neurons = {name: masks for name, masks in load_file(path).items() if name.startswith("neurons.")}
    assert len(neurons) == 2  # layers
    for whole, _, nothing in neurons.values():
        assert whole.all() and not nothing.any()
    assert [len(both.result.kept[place]) for place in (0, 2)] == [both.result.units, 0]
    whole, half, nothing = (size["model"] for size in both.result.parameters)
    assert 0.5 <= (whole - half) / (whole - nothing) < 0.6  # of the parameters, whatever the share of heads
    assert both.result.passes.backward == 2 * both.result.calibration
