"""The leaderboard leaves tasks at chance out of its means, and names them."""

from __future__ import annotations

from bench.report.leaderboard import markdown


def test_the_leaderboard_leaves_such_a_task_out_of_its_means_and_names_it(make_record, board_of):
    records = [
        make_record(label=label, data=data, quality=[[base, base, base / 2]], chance=1 / 3)
        for label in ("michel", "none")
        for data, base in (("first", 0.9), ("a*b", 0.34))
    ]
    text = markdown(board_of(records))
    overall, of_low = text.split("\n## ")[1:3]
    assert overall.startswith("Overall: mean over 1 task\n") and "1.27" not in text
    assert "a\\*b, model (34.0 %, chance 33.3 %)." in overall
    assert "| michel " in of_low and "area" not in of_low.splitlines()[4]


def test_where_no_task_is_above_chance_the_other_figures_are_shown(make_record, board_of):
    records = [make_record(data=data, quality=[[0.5, 0.5, 0.5]]) for data in ("first", "second")]
    overall = markdown(board_of(records)).split("\n## ")[1]
    assert overall.startswith("Overall: mean over 2 tasks") and "| m " in overall
    assert "No area is shown, as the unpruned model is not better than chance by 2 standard errors: " in overall
