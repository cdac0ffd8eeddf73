"""What ``compare`` says: in words, in tables, and of input that it cannot use."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bench.__main__ import main
from bench.analysis.comparing.comparison import compare
from bench.analysis.stats.documents import mcnemar
from bench.analysis.stats.signflip import sign_flip_interval, sign_flip_p
from bench.records.errors import InputError
from bench.report.comparison_text import text, words
from bench.report.tables.markdown import literal

MIDDLE = [0.70, 0.75, 0.72, 0.78, 0.66, 0.71, 0.74, 0.73, 0.69, 0.77]  # of ae, by seed


@pytest.fixture
def ten_seeds(keep):
    """michel keeps 4 to 8 points more than ae with half removed on ``first``, and as much on ``second``."""
    for seed, middle in enumerate(MIDDLE):
        for data, more in (("first", 0.04 + 0.01 * (seed % 5)), ("second", 0.01 * (-1) ** seed)):
            keep("ae", [0.9, middle, 0.5], seed=seed, task=data)
            folder = keep("michel", [0.9, middle + more, 0.5], seed=seed, task=data)
    return folder


def rows(answer: str, name: str) -> list[list[str]]:
    return [
        [part.strip() for part in line.strip("|").split("|")]
        for line in answer.splitlines()
        if line.startswith(f"| {name} ")
    ]


def test_a_difference_that_ten_seeds_show(ten_seeds):
    got = compare(ten_seeds, "michel", "ae", level=0.5)
    low, high = sign_flip_interval(np.array([4, 5, 6, 7, 8] * 2 + [1, -1] * 5))
    assert words(got) == (
        "michel keeps 3.0 points more accuracy than ae at 50 % of heads removed, 95 % interval "
        f"{low:.1f} to {high:.1f}; ten seeds on each of two tasks. No difference was shown on second."
    )
    first, second = got.tasks
    d = np.array([4, 5, 6, 7, 8] * 2)
    assert first.difference.mean == pytest.approx(6) and first.difference.beats == 1
    assert first.difference.p == sign_flip_p(d) == 2 / 2**10 and first.holm == pytest.approx(4 / 2**10)
    assert first.difference.interval == pytest.approx(sign_flip_interval(d))
    assert (second.difference.p, second.holm, second.difference.beats) == (1, 1, 0.5)
    assert got.overall.mean == pytest.approx(3) and got.overall.seeds == (10, 10)


def test_names_of_methods_are_plain_text_in_its_tables(keep):
    odd = "michel:f=$x|<b>`"
    for seed in range(2):
        keep(odd, seed=seed, result={"orders": [list(range(8))], "shape": [4, 4]})
        folder = keep("ae", seed=seed, result={"orders": [list(range(8))], "shape": [4, 4]})
    tables = text(compare(folder, odd, "ae", level=0.5)).splitlines()
    heads = [line for line in tables if line.startswith("|") and "michel" in line]
    assert heads and all(odd not in line and literal(odd) in line for line in heads)


def test_shares_that_no_method_can_remove_are_not_compared(keep):
    few = {"never_empty": [0], "shape": [4, 4], "orders": [list(range(8))]}
    for method, last in (("michel", 0.6), ("ae", 0.5)):
        folder = keep(method, [0.9, 0.7, last], removed=(0, 4, 7), result=few)
    (task,) = compare(folder, "michel", "ae").tasks
    assert task.a == pytest.approx((80 * 4 + 65 * 3) / 7) and task.b == pytest.approx((80 * 4 + 60 * 3) / 7)


def test_it_says_where_all_seeds_prune_one_model(ten_seeds, keep):
    for seed in range(2):
        for method in ("michel", "ae"):
            folder = keep(method, seed=seed, task="third", training={})
    note = "Note that on third seeds are draws of calibration texts for one model: the interval says nothing of other"
    assert note in words(compare(folder, "michel", "ae"))
    alone = words(compare(folder, "michel", "ae", tasks=["third"]))
    assert "Note that seeds are draws of calibration texts for one model" in alone
    assert "draws" not in words(compare(folder, "michel", "ae", tasks=["first", "second"]))


@pytest.mark.parametrize("drawn", ["both", "michel", ""])
def test_it_says_which_results_do_not_depend_on_the_draw(keep, drawn):
    for seed in range(6):
        for method in ("michel", "ae"):
            middle = 0.7 + 0.01 * seed * (drawn in ("both", method))
            folder = keep(method, [0.9, middle, 0.5], seed=seed, training={})
    told = {"both": "", "michel": ", and ae gives", "": ", and michel and ae give"}[drawn]
    end = f"nothing of other models{told}{' the same result in every draw' if told else ''}."
    assert words(compare(folder, "michel", "ae")).endswith(end)


def test_a_task_at_chance_is_compared_only_if_it_is_named_or_no_other_is_left(ten_seeds, keep):
    before = compare(ten_seeds, "michel", "ae")
    for seed in range(2):  # one seed of one method is enough to say that there is nothing to lose
        for method in ("michel", "ae", "tis"):
            low = seed == 1 and method == "tis"
            folder = keep(method, [0.5 if low else 0.9, 0.5, 0.5], seed=seed, task="third", result={"chance": 0.5})
    found = compare(folder, "michel", "ae")
    assert (found.tasks, found.overall) == (before.tasks, before.overall)
    assert found.remarks == (
        "left out: third, data, model, where the unpruned model is not better than chance by 2 standard errors (name "
        "it with --tasks to compare there too)",
    )
    named = compare(folder, "michel", "ae", tasks=["first", "third"])
    assert [task.name for task in named.tasks] == ["first", "third"] and not named.remarks
    said = (
        "the unpruned model is not better than chance by 2 standard errors on third: it has nothing to lose there, and"
    )
    assert f"Note that {said}" in words(named) and "chance" not in words(before)


def test_where_all_tasks_are_at_chance_they_are_compared(keep):
    for seed in range(6):
        for method in ("michel", "ae"):
            folder = keep(method, [0.5, 0.5, 0.5], seed=seed, result={"chance": 0.5})
    found = compare(folder, "michel", "ae")
    assert len(found.tasks) == 1
    assert "Note that the unpruned model is not better than chance by 2 standard errors: it has nothing" in words(found)


def test_the_sides_can_be_changed(ten_seeds):
    there, back = (compare(ten_seeds, *both, level=0.5) for both in (("michel", "ae"), ("ae", "michel")))
    assert words(there) == words(back)
    assert rows(text(back), "first")[0][1:6] == ["10", "72.5", "78.5", "-6.0", "-7.0 to -5.0"]


def test_the_mean_over_shares_is_the_default_and_is_no_area_of_the_leaderboard(ten_seeds):
    got = compare(ten_seeds, "michel", "ae")
    assert "1.5 points more accuracy than ae on average over the shares of heads removed, 95 %" in words(got)
    assert "not scaled by chance, unlike the leaderboard's area" in text(got) and text(got).count("area") == 1
    assert got.tasks[0].difference.mean == pytest.approx(3)  # half of what it is at the one level that differs
    assert got.tasks[0].documents is None


def test_what_is_kept_is_called_what_it_is(keep):
    for method, middle in (("ae", 0.05), ("michel", 0.04)):
        folder = keep(method, [0.06, middle, 0.01], task="texts", result={"parts": {}, "chance": 1 / 256})
        keep(method, [0.9, 10 * middle, 0.1], task="questions")
    told = "1.0 points more probability of a byte than michel at 50 %"
    assert told in words(compare(folder, "ae", "michel", ["texts"], 0.5))
    both = compare(folder, "ae", "michel")
    assert "points more quality than michel" in words(both) and "| quality (points) " in text(both)


def test_one_task_is_not_corrected_for_others(ten_seeds):
    got = compare(ten_seeds, "michel", "ae", ["second"], 0.5)
    assert words(got) == (
        "No difference was shown: michel and ae kept as much accuracy at 50 % of heads removed, "
        "95 % interval -1.0 to 1.0, p = 1.000; ten seeds."
    )
    assert "p (Holm)" not in text(got).partition("On the same test examples")[0]


@pytest.fixture
def three_tasks(keep):
    """michel keeps 5 points more than ae on average over the shares removed, in every seed of three tasks."""

    def write(seeds: int):
        for seed in range(seeds):
            for task in ("first", "second", "third"):
                keep("ae", seed=seed, task=task)
                folder = keep("michel", [0.9, 0.8, 0.5], seed=seed, task=task)
        return folder

    return write


def test_odd_names_of_data_stay_in_their_cell(keep):
    for data in ("a|b", "x\ny"):
        for method, quality in (("michel", [0.9, 0.8, 0.5]), ("ae", [0.9, 0.7, 0.5])):
            folder = keep(method, quality, data=data)
    lines = text(compare(folder, "michel", "ae")).splitlines()
    ends = [line.count("|") - line.count(r"\|") for line in lines]  # of cells
    assert all(one == other for one, other in pairwise(ends) if one and other)  # within each table
    assert any(line.startswith(r"| classification (a\|b, ") for line in lines)
    assert any(line.startswith("| classification (x y, ") for line in lines)


def test_too_few_seeds_are_told_how_many_would_do(three_tasks):
    got = compare(three_tasks(1), "michel", "ae")
    assert words(got).startswith("In this one seed on each of three tasks michel kept 5.0 points more accuracy than ae")
    assert words(got).endswith(
        "but so few cannot show a difference at the 5 % level: two seeds on each of three tasks are needed. "
        "For a single task, seven seeds are needed, corrected for three tasks."
    )
    assert rows(text(got), "first")[0][5:8] == ["–", "needs 6 seeds", "needs 7 seeds"]
    assert rows(text(got), "mean of tasks")[0][5:7] == ["–", "needs 2 seeds"]
    assert "p =" not in words(got) and "*" not in text(got)


def test_too_few_seeds_of_one_task(three_tasks):
    said = words(compare(three_tasks(5), "michel", "ae", ["first"]))
    assert said.startswith("In these five seeds michel kept 5.0 points more") and said.endswith(
        "but so few cannot show a difference at the 5 % level: six seeds are needed."
    )


def test_three_seeds_do_for_the_mean_and_not_for_each_of_three_tasks(three_tasks):
    got = compare(three_tasks(3), "michel", "ae")
    assert got.overall.p == 2 / 2**9
    assert words(got).startswith("michel keeps 5.0 points more") and words(got).endswith(
        "three seeds on each of three tasks. For a single task, seven seeds are needed, corrected for three tasks."
    )


def test_methods_that_are_the_same_but_for_their_names(keep):
    keep("ae")
    folder = keep("michel")
    one = words(compare(folder, "michel", "ae"))
    assert one.startswith("In this one seed michel and ae kept as much accuracy on average")
    for seed in range(1, 6):
        keep("ae", seed=seed)
        keep("michel", seed=seed)
    six = text(compare(folder, "michel", "ae"))
    assert six.startswith("No difference was shown: michel and ae kept as much accuracy on average")
    assert "95 % interval 0.0 to 0.0, p = 1.000" in six and "-0.0" not in six


@pytest.mark.parametrize(("sign", "winner", "loser"), [(1, "michel", "ae"), (-1, "ae", "michel")])
def test_a_difference_that_was_shown_is_never_told_as_none(keep, sign, winner, loser):
    for seed in range(6):
        keep("ae", [0.9, 0.7, 0.5], seed=seed)
        folder = keep("michel", [0.9, 0.8, 0.5], seed=seed)
    found = compare(folder, "michel", "ae")
    differences = tuple(sign * each for each in (0.012, 0.02, 0.03, 0.04, 0.053, 0.061))
    overall = replace(found.overall, mean=0.036 * sign, by_task=(differences,))
    small = replace(found, overall=overall)
    said = words(small)
    assert said.startswith(f"{winner} keeps 0.04 points more accuracy than {loser} ")
    assert "95 % interval 0.01 to 0.06; six seeds" in said


def test_another_level_of_the_tests(keep):
    for seed in range(4):
        keep("ae", seed=seed)
        folder = keep("michel", [0.9, 0.8, 0.5], seed=seed)
    assert "at the 5 % level: six seeds are needed" in words(compare(folder, "michel", "ae"))
    assert "80 % interval 5.0 to 5.0; four seeds." in words(compare(folder, "michel", "ae", alpha=0.2))


def test_a_task_where_the_other_keeps_more_is_named(keep):
    for seed in range(8):
        for task, more in (("first", 0.2), ("second", 0.1), ("third", -0.1)):
            keep("ae", [0.9, 0.7, 0.5], seed=seed, task=task)
            folder = keep("michel", [0.9, 0.7 + more, 0.5], seed=seed, task=task)
    said = words(compare(folder, "michel", "ae", level=0.5))
    assert said.startswith("michel keeps 6.7 points more") and said.endswith("On third ae keeps 10.0 points more.")


def test_the_same_on_each_task(keep):
    for seed in range(8):
        for task in ("first", "second"):
            keep("ae", seed=seed, task=task)
            folder = keep("michel", [0.9, 0.8, 0.5], seed=seed, task=task)
    assert words(compare(folder, "michel", "ae")).endswith("The same was shown on each of the two tasks.")


def test_documents_are_tested_seed_by_seed(ten_seeds):
    got = compare(ten_seeds, "michel", "ae", ["first"], 0.5)
    (task,) = got.tasks
    assert task.documents is not None and len(task.documents.mcnemar) == 10
    right = [np.arange(100) < count for count in (74, 70)]  # of seed 0
    assert task.documents.mcnemar[0] == mcnemar(*right)
    assert rows(text(got), "first")[1][1:5] == ["0", "4", "0", "0.125"]
    assert task.documents.interval.mean == pytest.approx(6)


def test_a_mean_over_draws_has_no_mcnemar_test(keep):
    for seed in range(2):
        keep("random", [0.9, 0.6, 0.5], [0.9, 0.7, 0.5], seed=seed)
        folder = keep("michel", seed=seed)
    got = compare(folder, "michel", "random", level=0.5)
    (task,) = got.tasks
    assert task.difference.mean == pytest.approx(5)
    assert task.documents is not None and not task.documents.mcnemar
    assert "no McNemar test, as one of the methods is a mean over random draws" in text(got)


def test_the_units_shared_are_those_that_are_gone_at_the_level_asked_for(keep):
    for method, order in (("michel", [0, 1, 2, 3, 4, 5, 6, 7]), ("ae", [0, 2, 1, 3, 4, 5, 6, 7])):
        folder = keep(method, [0.9, 0.8, 0.7, 0.5], removed=(0, 2, 4, 8), orders=[order])
    shared = {}
    for level in (None, 0.25):
        (task,) = compare(folder, "michel", "ae", level=level).tasks
        assert task.agreement is not None
        shared[level] = task.agreement.overlap, task.agreement.k
    assert shared == {None: (1.0, 4), 0.25: (0.5, 2)}


def test_orders_agree_or_not(keep):
    forward = list(range(8))
    for seed in range(2):
        keep("ae", seed=seed, orders=[forward[::-1] if seed else forward])
        folder = keep("michel", seed=seed, orders=[forward])
    (task,) = compare(folder, "michel", "ae").tasks
    assert task.agreement is not None
    assert (task.agreement.tau, task.agreement.overlap, task.agreement.k) == (0, 0.5, 4)
    assert task.agreement.stable == (1, -1)
    assert rows(text(compare(folder, "michel", "ae")), "classification")[1] == [
        "classification",
        "0.00",
        "50 % of 4",
        "50 %",
        "1.00",
        "-1.00",
    ]


def test_a_method_without_orders_has_no_agreement(keep):
    keep("ste", trained=0.1, result={"orders": None}, kept=[list(range(8)), [0, 1], []])
    got = compare(keep("michel"), "michel", "ste")
    assert got.tasks[0].agreement is None and "Kendall" not in text(got)


def test_a_trained_method_against_one_that_is_not(keep):
    keep("ste", trained=0.1)
    keep("dsp-joint", trained=0.1)
    folder = keep("michel")
    assert "Note that ste was trained at each level, for 10 % of the task's own training, and michel was not" in words(
        compare(folder, "michel", "ste")
    )
    assert "Note" not in words(compare(folder, "dsp-joint", "ste"))


def test_a_method_that_trains_longer_than_another(keep):
    reports = {"reports": {0: {"steps": 150.0}}, "passes": {"forward": 1, "backward": 1}}
    own = {"change": {"options": {"epochs": 1.0}}, "training": {"steps": 300}, "result": {"method_training": reports}}
    keep("dsp-joint", trained=0.1, **own)
    folder = keep("ste", trained=0.1)
    said = "Note that dsp-joint was trained at each level, for 50 % of the task's own training, and ste for 10 %: part"
    assert said in words(compare(folder, "ste", "dsp-joint"))


@pytest.mark.parametrize(("steps", "told"), [(31, False), (33, True)])
def test_a_training_that_is_longer_by_a_few_steps_is_as_long(keep, steps, told):
    """Of 30: steps are whole numbers."""
    reports = {"reports": {0: {"steps": float(steps)}}, "passes": {"forward": 1, "backward": 1}}
    own = {"change": {"options": {"epochs": 0.1}}, "training": {"steps": 300}, "result": {"method_training": reports}}
    keep("dsp-joint", trained=0.1, **own)
    folder = keep("ste", trained=0.1)
    assert ("Note that dsp-joint was trained" in words(compare(folder, "ste", "dsp-joint"))) == told


def test_with_nothing_removed_orders_are_compared_by_their_first_unit(keep):
    keep("michel")
    found = compare(keep("ae"), "michel", "ae", level=0.0).tasks[0].agreement
    assert found is not None and (found.k, found.overlap) == (1, 1.0)


def test_heads_and_neurons_are_compared_by_parameters(keep):
    """michel removes 0, 25 and 50 % of the parameters, amp 0, 50 and 100 %: they are compared up to 50 %."""
    keep("amp", [0.9, 0.9, 0.5], neurons=True, megabytes=[4.0, 2.0, 0.0])
    folder = keep("michel", [0.9, 0.8, 0.5])
    got = compare(folder, "michel", "amp")
    assert (got.tasks[0].a, got.tasks[0].b) == (pytest.approx(75), pytest.approx(90))
    first = text(got).splitlines()[0]
    assert first.startswith(
        "michel removes heads, amp heads and neurons: they differ in parameters removed (50.0 % and"
    )
    assert "equal shares of parameters removed, up to the 50.0 % that both reach, linear between" in first
    at = compare(folder, "michel", "amp", level=0.375)
    assert (at.tasks[0].a, at.tasks[0].b) == (pytest.approx(65), pytest.approx(90))
    assert at.tasks[0].documents is None and "at 37.5 % of parameters removed" in words(at)
    to = compare(folder, "michel", "amp", up_to=0.25)
    assert (to.tasks[0].a, to.tasks[0].b) == (pytest.approx(85), pytest.approx(90))
    assert "over the shares of parameters removed up to 25 %" in words(to)


def test_the_share_that_both_are_said_to_reach_is_taken(keep):
    keep("amp", [0.9, 0.9, 0.5], neurons=True, megabytes=[6.0, 5.5, 5.0])  # a sixth of the parameters at most
    folder = keep("michel", [0.9, 0.8, 0.5])
    with pytest.raises(InputError, match="both reach only ") as error:
        compare(folder, "michel", "amp", up_to=1.0)
    share = float(str(error.value).rpartition(" ")[2])
    assert 0.165 < share <= 1 / 6 and compare(folder, "michel", "amp", up_to=share)


def test_methods_that_remove_the_same_parts_are_not_said_to_differ(ten_seeds):
    assert "parameters" not in text(compare(ten_seeds, "michel", "ae")).partition("\n\n")[0]


def test_beside_a_random_control_of_other_parts_that_of_its_own_is_named(keep):
    keep("amp", neurons=True)
    keep("random", control=True)
    folder = keep("random-both", neurons=True, control=True)
    own = "Note that the random control of amp is random-both."
    assert own in words(compare(folder, "amp", "random")) and own in words(compare(folder, "random", "amp"))
    assert "Note" not in words(compare(folder, "amp", "random-both"))
    assert "Note" not in words(compare(folder, "random", "random-both"))


def test_the_mean_may_end_at_a_share(ten_seeds):
    got = compare(ten_seeds, "michel", "ae", ["first"], up_to=0.5)
    assert got.tasks[0].difference.mean == pytest.approx(3)  # 6 points at the end of the shares, 0 at their beginning
    assert "on average over the shares of heads removed up to 50 %, 95 %" in words(got)
    between = compare(ten_seeds, "michel", "ae", ["first"], up_to=0.25)
    assert between.tasks[0].difference.mean == pytest.approx(1.5)  # linear between the levels measured
    whole, all_of_it = (compare(ten_seeds, "michel", "ae", up_to=share) for share in (None, 1.0))
    assert whole.overall == all_of_it.overall


def test_cells_without_a_partner_are_named(keep):
    for seed in range(3):
        keep("michel", seed=seed)
    keep("ae", seed=0)
    keep("ae", seed=1, reason="RuntimeError: no")
    keep("michel", seed=0, task="second")
    folder = keep("random", seed=0, reason="not asked for")
    got = compare(folder, "michel", "ae")
    assert got.remarks == (
        "left out on classification: seeds 1, 2, for which ae has no result",
        "failed: ae on classification, seed 1: RuntimeError: no",
        "left out on second: seed 0, for which ae has no result",
    )
    assert got.tasks[0].seeds == (0,) and len(got.tasks) == 1
    assert "- failed: ae on classification, seed 1: RuntimeError: no" in text(got)


def test_tasks_need_not_share_seeds(keep):
    """michel keeps 10 points more on ``first`` (seeds 0 to 3), and as much on ``second`` (seeds 7 to 8)."""
    for task, seeds, more in (("first", range(4), 0.1), ("second", range(7, 9), 0.0)):
        for seed in seeds:
            keep("ae", seed=seed, task=task)
            folder = keep("michel", [0.9, 0.7 + more, 0.5], seed=seed, task=task)
    got = compare(folder, "michel", "ae", level=0.5)
    assert got.overall.mean == pytest.approx(5) and got.overall.seeds == (4, 2)
    assert got.overall.p == 2 / 2**4  # the two seeds without a difference change nothing
    assert words(got).startswith("No difference was shown: michel kept 5.0 points more")
    assert "two to four seeds on each of two tasks." in words(got)
    assert [row[1] for row in rows(text(got), "mean of tasks")] == ["6"]


@pytest.mark.parametrize(("level", "told"), [(0.47, "at 50 % of heads"), (0.2, "at 25 % of heads"), (1, "at 100 %")])
def test_the_level_told_is_the_one_found(keep, level, told):
    for method in ("michel", "ae"):
        folder = keep(method, [0.9, 0.8, 0.7, 0.5], removed=(0, 2, 4, 8))
    got = compare(folder, "michel", "ae", level=level)
    assert told in words(got) and got.tasks[0].a == pytest.approx({0.47: 70, 0.2: 80, 1: 50}[level])


def test_tasks_of_other_sizes_are_compared_at_the_nearest_of_each(keep):
    for method in ("michel", "ae"):
        keep(method, task="first")
        folder = keep(method, task="second", removed=(0, 4, 10), result={"units": 10, "orders": [list(range(10))]})
    said = words(compare(folder, "michel", "ae", level=0.44))
    assert "with 40 to 50 % of heads removed (the nearest to 44 %)" in said


def test_a_method_that_removes_nothing_is_said_to(keep):
    keep("none", [0.9, 0.9, 0.9], megabytes=[4.0] * 3)
    folder = keep("michel")
    assert words(compare(folder, "none", "michel", level=0.5)).endswith(
        "Note that none removes nothing: its quality is that of the unpruned model at every level."
    )


def test_unequal_shares_of_training_are_refused(keep):
    keep("ste", trained=0.1)
    keep("ste", trained=0.1, seed=1)
    keep("dsp-joint", trained=0.1)
    keep("dsp-joint", trained=0.2, seed=1)
    keep("voita", trained=0.5)
    folder = keep("michel")
    keep("michel", seed=1)
    for a, b in (("ste", "dsp-joint"), ("dsp-joint", "michel"), ("voita", "ste")):
        with pytest.raises(InputError, match=r"measured under different settings.*training .* % of the task's own"):
            compare(folder, a, b)
    assert "Note that ste was trained at each level, for 10 %" in words(compare(folder, "michel", "ste"))


def test_shares_of_training_that_tasks_differ_in_are_all_named(keep):
    for task, share in (("first", 0.1), ("second", 0.25)):
        keep("ste", trained=share, task=task)
        folder = keep("michel", task=task)
    assert "for 10 to 25 % of the task's own training, and michel was not" in words(compare(folder, "michel", "ste"))


def test_models_of_different_weights_are_named(keep):
    keep("michel", training={"weights": "a"})
    folder = keep("ae", training={"weights": "b"})
    assert compare(folder, "michel", "ae").remarks == (
        "on classification the two methods pruned models of different weights in seed 0",
    )


def test_tasks_of_one_adapter_are_told_apart(keep):
    for data in ("first", "second"):
        keep("michel", data=data)
        folder = keep("ae", data=data)
    assert [task.name for task in compare(folder, "michel", "ae").tasks] == [
        "classification (first, model)",
        "classification (second, model)",
    ]
    assert [task.name for task in compare(folder, "michel", "ae", ["second"]).tasks] == ["classification"]


def test_the_verb_prints_the_answer_first(ten_seeds, capsys):
    assert main(["compare", "michel", "ae", str(ten_seeds), "--level", "50%"]) == 0
    first, again = capsys.readouterr().out, main(["compare", "michel", "ae", str(ten_seeds), "--level", "50%"])
    assert first.startswith("michel keeps 3.0 points more") and again == 0
    assert first == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["michl", "ae"], "unknown method 'michl': did you mean 'michel'?"),
        (["michel", "michel"], "michel is named twice"),
        (["michel", "tis"], "tis has no result: 1 cell failed: it broke"),
        (["michel", "ste"], "no task and seed in common"),
        (
            ["michel", "amp", "--level", "0.9"],
            "--level 0.9: michel removes heads, amp heads and neurons: this",
        ),
        (["michel", "amp", "--up-to", "0.9"], "both reach only 0.500"),
        (["michel", "ae", "--up-to", "0"], "--up-to: expected a share above 0, at most 1, not 0"),
        (["michel", "ae", "--up-to", "50%", "--level", "0.5"], "--up-to: expected one of --level and --up-to"),
        (["none", "amp"], "removes no parameters"),
        (["michel", "ae", "--task", "classificatio"], "unknown task 'classificatio': did you mean 'classification'?"),
        (
            ["michel", "ae", "--level", "0.25"],
            "level 0.25 was not measured on classification, data, model: available: 0, 0.5, 1",
        ),
        (["michel", "ae", "--level", "2%"], "level 0.02 rounds to none of the 8 units on classification, data, model"),
        (["michel", "ae", "--level", "0.98"], "rounds to all of the 8 units on classification, data, model: available"),
        (["michel", "ae", "--level", "2"], "--level: expected a share from 0 to 1, or a percentage"),
        (["michel", "ae", "--alpha", "1"], "--alpha: expected a probability between 0 and 1, not '1'"),
        (["michel", "ae", "--alpha", "1e-6"], "--alpha 1e-06: expected a probability from 0.0001 to below 1"),
        (["michel", "gnorm"], "measured under different settings"),
        (["michel"], "required: B"),
    ],
)
def test_bad_input_is_one_line(keep, capsys, arguments, told):
    for method in ("michel", "ae"):
        keep(method)
    keep("gnorm", limit=50)
    keep("ste", seed=1)
    keep("tis", reason="it broke")
    keep("amp", neurons=True)
    folder = keep("none", megabytes=[4.0, 4.0, 4.0])
    with_folder = [*arguments[:2], str(folder), *arguments[2:]] if len(arguments) > 1 else arguments
    try:
        code = main(["compare", *with_folder])
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    assert code == 2 and not captured.out
    assert told in captured.err and captured.err.count("\n") == 1


def test_no_records_is_one_line(tmp_path, capsys):
    assert main(["compare", "michel", "ae", str(tmp_path)]) == 2
    assert re.fullmatch(r"headbench: error: .*no records there.*\n", capsys.readouterr().err)


def test_orders_of_a_single_unit_have_no_correlation(keep):
    for method in ("ae", "michel"):
        folder = keep(method, [0.9, 0.5], removed=(0, 1), orders=[[0]], result={"units": 1, "shape": [1]})
    got = text(compare(folder, "michel", "ae"))
    assert rows(got, "classification")[-1][1:] == ["–", "100 % of 1", "100 %", "–", "–"] and "nan" not in got
