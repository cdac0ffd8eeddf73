"""What a reader is told about records besides their numbers."""

from __future__ import annotations

import pytest

from bench.report.board import read
from bench.report.figures.looks import looks
from bench.report.notes import notes
from bench.report.pages.task import task_page


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


def test_texts_that_the_model_does_not_read_whole_are_counted(make_record):
    metrics = {"own/documents_cut": 3.0, "own/bleu": 0.5}, {"pairs/sources_cut": 2.0}
    records = [make_record(seed=seed, result={"metrics": [[each] * 3]}) for seed, each in enumerate(metrics)]
    told = [line for line in notes(records) if "longer than" in line]
    assert [line.partition(" are")[0] for line in told] == [
        "data, model, own: 3 documents",
        "data, model, pairs: 2 test sources",
    ]


def test_cells_that_were_timed_beside_another_run_are_counted(make_record):
    records = [make_record(seed=seed) for seed in range(3)]
    assert not [note for note in notes(records) if "timed" in note]
    for seed in (0, 2):
        latency = records[seed].measured.latency.updated(alone=False)
        records[seed] = records[seed].updated(measured=records[seed].measured.updated(latency=latency))
    told = [note for note in notes(records) if "timed" in note]
    assert told == ["2 cells timed while another run of the same user was active"]


def test_penalties_that_leave_quite_another_number_of_gates_open_are_told(make_record):
    def trained(seed: int, *opened: int):
        reports = {
            removed: {"open": left, "off_by": abs(8 - removed - left)}
            for removed, left in zip((2, 4, 8), opened, strict=True)
        }
        passes = {"forward": 1, "backward": 1}
        method_training = {"passes": passes, "reports": reports}
        return make_record(label="m", seed=seed, trained=0.1, result={"method_training": method_training})

    told = [note for note in notes([trained(0, 3, 4, 5), trained(1, 4, 5, 5)]) if "penalties" in note]
    assert [note.rpartition(", on average ")[2] for note in told] == ["4 where 6 are kept"]  # 3.5; not 4.5 where 4 are
    assert not [note for note in notes([trained(0, 6, 4, 5), make_record()]) if "penalties" in note]


def test_methods_on_models_of_other_weights_are_named(make_record):
    """Two processors train models that differ in their last bits from one seed."""
    made = [
        make_record(
            label=label, seed=seed, training={"steps": 1, "weights": "b" if label in "xy" and seed < 2 else "a"}
        )
        for label in ("x", "y", "none", "michel", "random")
        for seed in range(3)
    ]
    (found,) = [note for note in notes(made) if "other weights" in note]
    assert found.endswith(": x, y: pruned models of other weights than the rest in seeds 0, 1")
    assert not [note for note in notes(made[6:]) if "other weights" in note]


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_task_has_the_notes_on_its_records(run, write):
    run(seeds=2, labels=("michel", "random"))
    board = read(write("ae", 50, 0, "alpha"))
    pages = [task_page(board, task, looks(board)) for task in board.tasks]
    texts = [content.decode() for files in pages for name, content in files.items() if name.endswith(".html")]
    assert ["of 2 seeds, ae: only seed 0" in text for text in texts] == [task.data == "alpha" for task in board.tasks]
    assert [">Notes<" in text for text in texts] == [True, False]


def test_sub_tasks_of_one_name_on_two_data_sets_are_both_counted(make_record):
    of = {"first": 3.0, "second": 5.0}
    records = [
        make_record(cell={"data": data}, result={"metrics": [[{"own/documents_cut": number}] * 3]})
        for data, number in of.items()
    ]
    told = [line.partition(" are")[0] for line in notes(records) if "longer than" in line]
    assert told == ["first, model, own: 3 documents", "second, model, own: 5 documents"]


def test_a_cell_that_failed_elsewhere_leaves_no_seconds_out(make_record, failed):
    records = [make_record(seed=seed, provenance={"processor": processor}) for seed, processor in enumerate("AB")]
    assert any("leave out the seconds" in line for line in notes(records))
    assert not any("leave out the seconds" in line for line in notes([records[0], failed(records[1], "no memory")]))


def test_a_commit_that_is_not_known_is_called_so(make_record):
    commits = ("a" * 40, "", "")
    records = [make_record(seed=seed, provenance={"commit": commit}) for seed, commit in enumerate(commits)]
    assert f"records of several commits: {'a' * 12} (1), unknown (2)" in notes(records)
