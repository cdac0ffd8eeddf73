"""The pages of budgets: their numbers against those of the analysis, and what they say where something is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.__main__ import main
from bench.analysis.trade_offs.budgets import Budget, answer, size_of_smallest
from bench.analysis.trade_offs.levels import trade_offs
from bench.analysis.trade_offs.points import Mean
from bench.report.board import read
from bench.report.pages import budgets as page_of_budgets
from bench.report.pages.budgets import budget_pages
from bench.report.scopes import scopes
from bench.report.tables.budgets import SHOWN, better_control, fitting, random_choice, untold

pytestmark = pytest.mark.usefixtures("undrawn")
ALPHA = "budgets/classification.alpha.model.html"


@pytest.fixture
def page_of(parse):
    """The parsed page of a folder's budgets."""
    return lambda folder, name=ALPHA: parse(budget_pages(read(folder))[name].decode())


def test_the_table_of_a_budget_holds_what_the_analysis_finds(run, page_of):
    folder = run(seeds=8, data=("alpha",))
    board, page = read(folder), page_of(folder)
    found = trade_offs(board.records.values())
    (scope,) = scopes(board)
    tables = dict(zip(scope.answers, page.tables, strict=False))  # the table of a budget that nothing meets is missing
    budget = Budget("left", max(b.most for b in scope.answers if b.measure == "left"))
    expected = answer(found, budget)
    head, *rows = tables[budget]
    columns = [text for text, _ in head]
    fits = [fit for of_kind in expected.values() for fit in of_kind]
    assert [row[0][1] for row in rows] == [fit.point.label for fit in fits] and len(fits) == 5
    assert not {"random", "none"} & {row[0][1] for row in rows}
    for fit, row in zip(fits, rows, strict=True):
        shown = dict(zip(columns, row, strict=True))
        point, lost = fit.point, fit.point.lost
        assert shown["points lost"][0] == f"{lost.value:.1f} [{lost.low:.1f}, {lost.high:.1f}]"
        assert float(shown["removed, %"][1] or "") == pytest.approx(point.removed)
        assert float(shown["parameters left, %"][1] or "") == pytest.approx(point.left)
        assert float(shown["MB"][1] or "") == pytest.approx(point.megabytes)
        for batch in (1, 8, 32):
            assert float(shown[f"speed-up, b{batch}"][1] or "") == pytest.approx(point.speedups[batch].value)
        assert float(shown["passes"][1] or "") == found.costs[point.label].passes
        area = board.table[board.table["label"] == point.label]["area"].mean()
        assert float(shown["area"][1] or "nan") == pytest.approx(area)
        if fit.more is not None:
            assert float(shown["more than the best"][1] or "") == pytest.approx(fit.more)
            assert f"p = {fit.p:.3f}" in shown["more than the best"][0] or "p <0.001" in shown["more than the best"][0]
            assert ("not distinguishable" in shown["more than the best"][0]) != fit.shown_apart
    assert page.groups[0].startswith("score: ") and "Random choice (random) loses" in page.text


def test_a_budget_of_quality_says_whether_the_whole_interval_is_within(run):
    folder = run(seeds=8, data=("alpha",))
    (scope,) = scopes(read(folder))
    budget = Budget("lost", 20.0)
    table = fitting(scope.trade_offs, budget, answer(scope.trade_offs, budget), {}, "")
    place = [heading.key for heading in table.headings].index("within")
    lost = [heading.key for heading in table.headings].index("lost")
    assert table.rows
    for row in table.rows:
        high = float(row[lost].spread.strip(" []").split(", ")[1])
        assert row[place].shown == ("yes" if high <= 20 else "no")


def test_a_budget_of_quality_says_at_which_size_methods_are_compared(run):
    (scope,) = scopes(read(run(seeds=8, data=("alpha",))))
    for measure, most, said in (("lost", 20.0, True), ("left", 0.99, False)):
        budget = Budget(measure, most)
        found = answer(scope.trade_offs, budget)
        groups = dict.fromkeys(fitting(scope.trade_offs, budget, found, {}, "").groups)
        for group, fits in zip(groups, found.values(), strict=True):
            most = size_of_smallest(scope.trade_offs, [fit.point for fit in fits]).most
            size = f"; compared with {100 * most:.1f} % of the parameters left, or fewer"
            assert group.endswith(size) == (said and len(fits) > 1)
            assert len(fits) > 1 or "compared" not in group


@pytest.mark.parametrize(("most", "expected"), [(0.85, "no"), (0.9, "yes")])
def test_a_budget_of_time_says_whether_the_whole_interval_is_within(run, most, expected):
    (scope,) = scopes(read(run(seeds=2, data=("alpha",), labels=("michel",))))
    speedups = {8: Mean(1 / 0.8, 1 / 0.88, 1 / 0.7)}
    points = [replace(point, speedups=speedups) for point in scope.trade_offs.points["michel"]]
    found, budget = replace(scope.trade_offs, points={"michel": tuple(points)}), Budget("time", most, 8)
    table = fitting(found, budget, answer(found, budget), {}, "")
    assert table.rows[0][[heading.key for heading in table.headings].index("within")].shown == expected


def test_a_loss_that_is_the_budget_but_for_rounding_is_within_it(run):
    (scope,) = scopes(read(run(seeds=2, data=("alpha",), labels=("michel",))))
    lost = 100 * (0.85 - 0.84)
    points = [replace(point, lost=Mean(lost, lost, lost)) for point in scope.trade_offs.points["michel"]]
    found, budget = replace(scope.trade_offs, points={"michel": tuple(points)}), Budget("lost", 1.0)
    table = fitting(found, budget, answer(found, budget), {}, "")
    assert lost > 1 and table.rows[0][[heading.key for heading in table.headings].index("within")].shown == "yes"


def test_every_point_is_in_a_table_and_on_disk(run):
    files = budget_pages(read(run(seeds=2, data=("alpha", "beta"))))
    rows = files["tables/points-classification.alpha.model.csv"].decode().splitlines()
    assert len(rows) == 1 + 7 * 3 and rows[0].startswith("method,removed,lost,left,mb,speedup1,")
    assert {name for name in files if name.endswith(".html")} == {
        "budgets.html", "budgets/mean.html", ALPHA, ALPHA.replace("alpha", "beta"),
    }  # fmt: skip


def test_of_many_levels_a_page_shows_some_and_the_file_all(run, monkeypatch, parse):
    monkeypatch.setattr(page_of_budgets, "MOST", 2)
    files = budget_pages(read(run(seeds=2, data=("alpha",))))
    page = parse(files[ALPHA].decode())
    assert len(page.tables[-1]) == 1 + 7 * 2 and "14 points of 21; the files below have all" in page.text
    assert {row[1][1] for row in page.tables[-1][1:]} == {"0.25", "0.75"}
    assert len(files["tables/points-classification.alpha.model.csv"].decode().splitlines()) == 1 + 7 * 3


def test_the_first_page_has_the_best_of_each_kind_and_leads_to_the_others(run, parse):
    board = read(run(seeds=8))
    page = parse(budget_pages(board)["budgets.html"].decode())
    first = scopes(board)[0]
    budgets = [budget for budget in first.answers if budget.measure == "left"]
    assert len(page.tables) == 3 and len(page.tables[0]) == 1 + len(budgets)
    for budget, row in zip(budgets, page.tables[0][1:], strict=True):
        for (heading, _), (shown, _) in zip(page.tables[0][0][1:], row[1:], strict=True):
            fits = first.answers[budget].get(heading)
            assert shown.startswith(fits[0].point.label if fits else "–")
    assert [link for link in page.links if link.startswith("budgets/")] == [
        "budgets/mean.html", ALPHA, ALPHA.replace("alpha", "beta"),
    ]  # fmt: skip


def test_without_latency_budgets_are_of_size_and_quality_and_the_page_says_so(run, page_of):
    page = page_of(run(seeds=2, data=("alpha",), timed=False))
    assert "No latency was measured" in page.text and "Time of a forward pass" not in page.text
    assert not any("speed-up" in heading for table in page.tables for heading, _ in table[0])
    assert "Parameters left: at most" in page.text and "Lost: at most 5 points" in page.text


def test_where_one_task_alone_was_timed_only_the_mean_says_nothing_of_speed(run):
    run(seeds=2, data=("alpha",))
    folder = run(seeds=2, data=("beta",), timed=False)
    mean, alpha, beta = scopes(read(folder))
    assert mean.untimed.startswith("Latency was not measured of any method in every seed of every task")
    assert alpha.untimed == ""
    assert beta.untimed.startswith("No latency was measured")


def test_methods_that_were_not_timed_are_named_unless_others_with_models_of_their_shapes_were(run, write, page_of):
    folder = run(seeds=2, data=("alpha",), labels=("michel", "random"))
    for seed in range(2):
        write("ae", 60, seed, "alpha", timed=False)
        write("amp", 60, seed, "alpha", timed=False, neurons=True)
    (scope,) = scopes(read(folder))
    assert scope.untimed == (
        "1 method was not timed, nor others with models of the same shapes, so budgets of time leave out amp."
    )
    assert scope.untimed in page_of(folder).text
    assert [point.speedups for point in scope.trade_offs.points["ae"]] == [
        point.speedups for point in scope.trade_offs.points["michel"]
    ]


def test_times_of_several_machines_are_not_averaged(run, write, page_of):
    folder = run(seeds=1, data=("alpha",), labels=("michel", "random"))
    write("ae", 60, 0, "alpha", processor="B")
    (scope,) = scopes(read(folder))
    assert all(math.isnan(cost.seconds) for cost in scope.trade_offs.costs.values())  # also where one ran all
    page = page_of(folder)
    assert "on several machines" in page.text and "Time of a forward pass" not in page.text


def test_what_two_seeds_cannot_tell_apart_is_not_tested_and_it_is_said_how_many_would(run, page_of):
    page = page_of(run(seeds=2, data=("alpha",)))
    assert "(3 others not tested, which needs 7 seeds)" in page.text and "not told from it" not in page.text


def test_methods_without_a_size_to_compare_at_take_no_seeds(run):
    (scope,) = scopes(read(run(seeds=2, data=("alpha",))))
    budget = Budget("left", max(b.most for b in scope.answers if b.measure == "left"))
    fits = next(found for found in scope.answers[budget].values() if len(found) == 4)
    assert untold(scope.trade_offs, fits) == "3 others not tested, which needs 7 seeds"
    fewer = [*fits[:2], replace(fits[2], more=None)]
    assert untold(scope.trade_offs, fewer) == "1 other not tested, which needs 6 seeds"


def test_methods_that_the_seeds_cannot_tell_from_the_best_are_counted(run, write):
    folder = run(seeds=8, data=("alpha",), labels=("michel", "ae", "random"))
    for seed in range(8):
        write("michel:alike=true", 80, seed, "alpha")
    (scope,) = scopes(read(folder))
    budget = Budget("left", max(b.most for b in scope.answers if b.measure == "left"))
    (fits,) = scope.answers[budget].values()
    told = [fit.point.label for fit in fits[1:] if fit.p is not None and fit.p <= 0.05]
    assert untold(scope.trade_offs, fits) == f"{2 - len(told)} other not told from it" and told == ["ae"]


def test_random_choice_within_a_budget_of_quality_is_the_smallest(run, write):
    folder = run(seeds=2, data=("alpha",), labels=("michel",))
    for label, at_half in (("random", 60), ("random:careful=true", 78)):
        for seed in range(2):
            write(label, at_half, seed, "alpha", control=True, cell={"method": "random"})
    (scope,) = scopes(read(folder))
    most = 14.5  # one loses 13 of 65 points with a quarter removed, the other 14.3 with half
    found = random_choice(scope.trade_offs, Budget("lost", most), "score")
    assert (found.label, found.removed) == ("random:careful=true", 0.5)
    assert scope.trade_offs.points["random"][0].lost.value < found.lost.value < most


@pytest.mark.parametrize(("at_half", "better"), [(95, True), (40, False)])
def test_a_control_that_loses_less_than_the_best_is_named_beside_it(run, write, at_half, better):
    folder = run(seeds=2, data=("alpha",), labels=("michel", "random"))
    for seed in range(2):
        write("inverse-ae", at_half, seed, "alpha", control=True)
    board = read(folder)
    (scope,) = scopes(board)
    of_size = {budget: fits["score"][0].point for budget, fits in scope.answers.items() if budget.measure == "left"}
    controls = [better_control(scope.trade_offs, budget, best) for budget, best in of_size.items()]
    assert {control.label for control in controls if control} == ({"inverse-ae"} if better else set())
    pages = budget_pages(board)
    of_task = next(text.decode() for name, text in pages.items() if name.startswith("budgets/") and "mean" not in name)
    assert ("A control does better: inverse-ae loses" in of_task) == better and "Random choice (random)" in of_task
    assert ("the control inverse-ae" in pages["budgets.html"].decode()) == better


def test_what_lacks_a_seed_is_named(run, write, page_of):
    folder = run(seeds=2, data=("alpha",), labels=("michel", "random", "voita"))
    write("ae", 60, 0, "alpha")
    assert "Left out: ae (no result for seed 1)." in page_of(folder).text


def test_a_table_of_a_budget_is_no_longer_than_it_says(run, write):
    folder = run(seeds=1, data=("alpha",), labels=("michel", "random"))
    for number in range(SHOWN + 3):
        write(f"michel:x={number}", 50 + number, 0, "alpha")
    (scope,) = scopes(read(folder))
    budget = next(iter(scope.answers))
    table = fitting(scope.trade_offs, budget, scope.answers[budget], {}, "")
    assert len(table.rows) == SHOWN and f"{SHOWN} of {SHOWN + 4} methods that fit" in table.groups[0]


def test_nothing_but_what_removes_nothing_leaves_nothing_to_choose_from(run, parse):
    files = budget_pages(read(run(seeds=1, labels=("none",))))
    assert set(files) == {"budgets.html"} and "nothing to choose from" in parse(files["budgets.html"].decode()).text


def test_models_without_any_head_are_nothing_to_choose_from(make_record, board_of, parse):
    ends = {"removed": (0, 8), "quality": [[0.9, 0.25]]}
    board = board_of([make_record(label="michel", **ends), make_record(label="random", control=True, **ends)])
    files = budget_pages(board)
    assert set(files) == {"budgets.html"} and "nothing to choose from" in parse(files["budgets.html"].decode()).text


def test_tasks_at_chance_are_in_no_mean_and_said_so(run, changed, parse):
    board = read(run(seeds=2, labels=("michel", "random")))
    records = {
        path: changed(record, result={"chance": 0.89}) if record.task.data == "beta" else record
        for path, record in board.records.items()
    }
    board = type(board)(board.folder, records)
    assert [scope.name for scope in scopes(board)] == [board.name(task) for task in board.tasks]
    page = parse(budget_pages(board)[ALPHA.replace("alpha", "beta")].decode())
    assert "is not better than chance by 2 standard errors" in page.text


def test_the_report_has_them(run):
    folder = run(seeds=1, data=("alpha",), labels=("michel", "random"))
    assert main(["report", str(folder), "--out", str(folder / "report")]) == 0
    assert (folder / "report" / ALPHA).is_file() and (folder / "report" / "budgets.html").is_file()
