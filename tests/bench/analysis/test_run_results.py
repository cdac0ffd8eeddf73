"""From records on disk to the cells of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.analysis.comparing.comparable import check_comparable
from bench.analysis.run_results import read_results
from bench.analysis.stats.documents import document_bootstrap
from bench.records.errors import InputError
from bench.records.protocol import PROTOCOL
from bench.records.schema import TaskKey

TASK = TaskKey("classification", "data", "model")


def test_a_finished_cell_has_its_curve_and_outcomes(keep):
    keep("ae")
    (cell,) = read_results(keep("michel", [0.9, 0.7, 0.5], seed=3)).of(TASK, "michel").values()
    assert (cell.record.task, cell.record.cell.label, cell.record.cell.seed) == (TASK, "michel", 3)
    assert (cell.shares.tolist(), cell.quality.tolist()) == ([0, 0.5, 1], [0.9, 0.7, 0.5])
    assert cell.parameters.tolist() == [0, 0.25, 0.5]  # of 4, 3 and 2 megabytes
    assert cell.outcomes(1).tolist() == [1] * 70 + [0] * 30


def test_draws_within_a_seed_are_averaged_first(keep):
    (cell,) = read_results(keep("random", [0.9, 0.8, 0.5], [0.9, 0.4, 0.5])).cells
    assert cell.quality == pytest.approx([0.9, 0.6, 0.5])
    assert cell.outcomes(1).tolist() == [1] * 40 + [0.5] * 40 + [0] * 20


@pytest.mark.slow
def test_the_committed_records_say_the_same_of_outcomes_and_quality():
    results = read_results(Path(__file__).parents[3] / "results" / "mini")
    assert len(results.tasks()) == 4 and not results.failed and not results.other_protocol
    check_comparable(cell.record for cell in results.cells)
    for cell in results.cells[::9]:
        assert cell.outcomes(4).mean() == pytest.approx(cell.quality[4])


def test_groups_of_examples_are_means_of_their_own(keep):
    parts = {"first": 80, "second": 20}
    quality = {"quality": [[0.9, 0.5, 0.5]]}  # of 50 right: (50 / 80 + 0 / 20) / 2
    (cell,) = read_results(keep("michel", [0.9, 0.5, 0.5], result={"parts": parts} | quality)).cells
    outcomes = cell.outcomes(1)[None]
    mean = document_bootstrap(outcomes, np.zeros_like(outcomes), list(cell.record.result.parts.values())).mean
    assert mean == pytest.approx(0.3125)


def test_failed_cells_are_named(keep):
    keep("michel")
    results = read_results(keep("ae", reason="RuntimeError: no"))
    assert [(one.task, one.cell.label, one.reason) for one in results.failed] == [(TASK, "ae", "RuntimeError: no")]
    assert results.labels() == ["michel"]


def test_records_of_another_protocol_are_counted_or_refused(keep):
    folder = keep("ae", protocol=PROTOCOL - 1)
    with pytest.raises(InputError, match="another protocol"):
        read_results(folder)
    results = read_results(keep("michel"))
    assert results.other_protocol == 1 and results.labels() == ["michel"]


def test_no_records_and_corrupt_ones(keep, tmp_path):
    with pytest.raises(InputError, match="no records there"):
        read_results(tmp_path)
    folder = keep("michel")
    (cell,) = read_results(folder).cells
    cell.path.with_suffix(".safetensors").write_bytes(b"other")
    with pytest.raises(InputError, match="records are corrupt"):
        read_results(folder)
    with pytest.raises(InputError, match="corrupt arrays"):
        cell.outcomes(0)
