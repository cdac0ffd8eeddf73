"""Recovered choices through a whole run: their weights are measured, and what they cost counts as scoring."""

from __future__ import annotations

from bench.measure.exactness import TOLERANCE
from bench.records.store import finished, read_current


def test_records_say_what_was_recovered_and_what_it_cost(place):
    assert place.run("--methods", "michel,michel:recover=bias,michel:recover=lstsq", "--no-latency") == 0
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
