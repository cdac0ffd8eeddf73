"""What a reader is told about records besides their numbers."""

from __future__ import annotations

from bench.report.notes import notes


def test_ties_are_told_once_for_each_method(make_record):
    draws = [[0.9, 0.7, 0.5]] * 2
    records = [
        make_record("ae", seed=0, quality=draws, result={"ties": [3, 0]}),
        make_record("ae", seed=1, quality=draws, result={"ties": [0, 1]}),
        make_record("ae", seed=2, quality=draws, result={"ties": [0, 0]}),
        make_record("michel", seed=0, result={"ties": [0]}),
        make_record("dsp", seed=0, kept=[[*range(8)], [*range(4)], []], result={"ties": None, "orders": None}),
    ]
    told = [line for line in notes(records) if "equal importance" in line]
    assert [line.partition(" were")[0] for line in told] == ["ae: 4 of 32 removals in 2 cells"]
