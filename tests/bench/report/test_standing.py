"""What a report says of who stands where: true of what is ranked, and the same as its table says."""

from __future__ import annotations

import pytest

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.comparing.comparison import compare
from bench.records.schema import FinishedRecord
from bench.report.board import Board, read
from bench.report.pages.index import lead
from bench.report.standing import standing, why_none, words
from bench.report.tables.overview import standings


def said(board: Board) -> str:
    found = standing(board, board.tasks)
    return " ".join(words(found)) if found else why_none(board, board.tasks)


def lower(board: Board, data: str, base: float, seeds: range = range(99)) -> Board:
    """The board with an unpruned model of ``data`` whose accuracy is ``base``; chance is 0.25."""

    def lowered(record: FinishedRecord) -> FinishedRecord:
        if record.cell.data != data or record.cell.seed not in seeds:
            return record
        quality = [[base, *draw[1:]] for draw in record.result.quality]
        return record.model_copy(update={"result": record.result.model_copy(update={"quality": quality})})

    return Board(board.folder, {path: lowered(record) for path, record in board.records.items()})


def test_only_ranked_methods_are_said_to_keep_less(run, write):
    folder = run(seeds=6, labels=("michel", "random"))
    for data in ("alpha", "beta"):
        for seed in range(5):
            write("ae", 99, seed, data)
    assert said(read(folder)).endswith(
        "The only other ranked method is a control, and was shown to keep less, by more than 0.5 points of area (of "
        "100). Not ranked: ae (no result for seed 5 on classification (alpha, model), classification (beta, model))."
    )


def test_a_single_ranked_method_stands_beside_those_that_are_not(run, write):
    folder = run(seeds=2, labels=("michel", "none"), data=("alpha",))
    write("ae", 99, 0, "alpha")
    assert said(read(folder)) == (
        "Only michel is ranked, so there is nothing to compare it with. Not ranked: ae (no result for seed 1 on "
        "classification)."
    )


@pytest.fixture
def unequal(write):
    """ae is ahead where its mean is taken over the seeds of each task, michel in the seeds that both tasks have."""
    for seed in range(12):
        for label, at_half in (("michel", 60), ("ae", 50 if seed < 6 else 95), ("random", 30)):
            folder = write(label, at_half, seed, "alpha", noise=0.002)
            if seed < 6:
                write(label, at_half, seed, "beta", noise=0.002)
    return read(folder)


def test_text_and_table_agree_where_tasks_have_other_seeds(unequal):
    found = standing(unequal, unequal.tasks)
    assert found is not None and found.labels[0] == "ae" and found.tiers["score"].seeds == (12, 6)
    text = " ".join(words(found))
    assert text.startswith(f"ae has the largest area, {found.area.value[0]:.3f} (95 % interval ")
    assert "over 6 to 12 seeds per task). 1 other method in its tier was not shown to keep less by more" in text
    rows = {row[0].value: row for row in standings(unequal, unequal.tasks, found, "t", "t").rows}
    assert max(rows, key=lambda label: rows[label][1].value) == "ae"
    assert [rows[label][2].shown for label in ("ae", "michel", "random")] == ["1", "1", "2"]


def test_a_method_of_the_tier_may_be_told_from_its_best(write):
    """It keeps less in each seed: 0.3 to 0.9 points of area, so that only a difference beyond half a point is open."""
    for seed in range(6):
        write("michel", 60, seed, "alpha")
        folder = write("ae", 58.8 + 0.6 * (seed % 3 - 1), seed, "alpha")
    assert compare(folder, "michel", "ae").overall.p == 2 / 2**6
    assert said(read(folder)).endswith(
        "over 6 seeds). 1 other method in its tier was not shown to keep less by more than 0.5 points of area (of "
        "100), with all pairs tested together."
    )


def test_the_area_of_the_table_is_that_of_the_text_with_few_seeds(write):
    for seed in range(4):
        for label, at_half in (("michel", 60), ("ae", 50 if seed < 1 else 95)):
            folder = write(label, at_half, seed, "alpha")
            if seed < 1:
                write(label, at_half, seed, "beta")
    board = read(folder)
    found = standing(board, board.tasks)
    assert found is not None and found.area.low is None
    rows = {row[0].value: row for row in standings(board, board.tasks, found, "t", "t").rows}
    for label, value in zip(found.labels, found.area.value, strict=True):
        assert rows[label][1].shown == f"{value:.3f}"
    assert said(board).endswith(
        "5 seeds of all tasks together cannot show any method to be better than another at the 5 % level, so all "
        "ranked methods are in one tier (6 are needed)."
    )


def test_tiers_are_those_of_a_kind_and_its_best_is_named(write):
    """A noisy score is not shown to keep less than the best score, and a trained method does not part the two."""
    for seed in range(10):
        write("voita", 90, seed, "alpha", trained=0.1)
        write("michel", 85 + seed / 10, seed, "alpha")
        write("tis", 80 + seed / 10, seed, "alpha")
        folder = write("ae", 115 if seed % 2 else 45, seed, "alpha")
    board = read(folder)
    found = standing(board, board.tasks)
    assert found is not None and found.labels == ("michel", "ae", "tis", "voita")
    assert [found.tier(label) for label in found.labels] == [1, 1, 2, 1]
    assert lead(board, found)[0].startswith("voita has the largest area")
    assert lead(board, found)[1] == "No other ranked method is of its kind."
    best = f"leave the weights alone, controls apart, michel has the largest area, {found.area.value[0]:.3f}"
    assert best in lead(board, found)[-1]


def test_controls_are_told_as_such_and_set_apart(write):
    for seed in range(6):
        write("michel-retrained", 95 + seed / 10, seed, "alpha", trained=0.1, control=True)
        write("dsp-joint", 90 + seed / 10, seed, "alpha", trained=0.1)
        write("michel", 80 + seed / 10, seed, "alpha")
        folder = write("oracle-greedy", 85 + seed / 10, seed, "alpha", control=True)
    board = read(folder)
    found = standing(board, board.tasks)
    assert found is not None
    text = " ".join(lead(board, found))
    assert text.startswith("michel-retrained, a control, has the largest area, ")
    assert "Controls apart, dsp-joint has the largest area, " in text
    assert "Of the methods that leave the weights alone, controls apart, michel has the largest area, " in text
    assert text.count("has the largest area") == 3


def test_a_task_at_chance_is_left_out_by_name(run):
    board = lower(read(run(seeds=2, labels=("michel", "random", "none"))), "beta", 0.26)
    found, alone = standing(board, board.tasks), standing(board, [board.tasks[0]])
    assert found is not None and alone is not None
    assert (found.area.value == alone.area.value).all()
    assert words(found)[-1] == (
        "Left out of the mean, as the unpruned model is not better than chance by 2 standard errors: classification "
        "(beta, model) (26.0 %, chance 25.0 %)."
    )
    table = metrics_table(board.records.values())
    assert table[table["data"] == "beta"]["area"].isna().all() and "no result" not in said(board)


def test_one_seed_at_chance_leaves_the_task_out_and_is_named(run):
    board = lower(read(run(seeds=3, labels=("michel", "random"))), "beta", 0.26, range(1, 2))
    assert "classification (beta, model) (26.0 % in seed 1, chance 25.0 %)." in said(board)


def test_nothing_ranked_has_its_true_reason(run, write):
    none = read(run(seeds=2, labels=("none",)))
    assert said(none) == "No method here removes heads and nothing else, so none is ranked."
    low = lower(lower(none, "alpha", 0.2), "beta", 0.2)
    assert said(low) == said(none)


def test_nothing_complete_has_its_true_reason(run, write):
    folder = run(seeds=3, labels=("none", "amp"), data=("alpha",))
    write("michel", 80, 1, "alpha")
    assert said(read(folder)) == (
        "No method that removes heads has a result in every seed of every task, so none is ranked. Not ranked: michel "
        "(no result for seeds 0, 2 on classification)."
    )
