"""Numbers in the documents are answers of ``compare`` on the committed records."""

from __future__ import annotations

import sys

import pytest

from bench.__main__ import main
from docs.studies import answers
from docs.studies.answers import Answer, Question, revised
from tests.docs.documents import ROOT

PAGE = """# A page

It keeps 9.9 points more (1.0 to
2.0).

## What it says

`a` keeps 6.8 points more than `b` (5.1 to 8.5), `c` 2.0 and `d` 3.0; with 8 heads 60.4 % are left. For `e`
nothing could be shown (0.4 less;
-1.0 to 1.8).

| compared with `b` | all (95 % interval) |
| --- | ---: |
| `a` | +6.8 (5.1 to 8.5) |

## What follows

(7.0 to 8.0)
"""
QUESTIONS = ["mini a b", "mini c b alone", "mini d b alone to=0.5", "real b e ? tasks=x,y"]
ASKED = {"heading": "What it says", "questions": QUESTIONS}


def made_up(question: Question) -> Answer:
    number = {"a": 10.04, "c": 0.06, "d": 12.0, "b": 0.3}[question.a]
    return Answer(number, number - 1, number + 1, shown=question.shown)


@pytest.mark.slow
def test_the_documents_say_what_the_records_say(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["answers", "--check"])
    assert answers.main() == 0, capsys.readouterr().out


def test_answers_take_their_places_and_nothing_else_changes():
    page, faults = revised(PAGE, ASKED, made_up)
    assert not faults
    assert page == (
        PAGE.replace("6.8 points more than `b` (5.1 to 8.5)", "10.0 points more than `b` (9.0 to 11.0)")
        .replace("`c` 2.0 and `d` 3.0", "`c` 0.1 and `d` 12.0")
        .replace("(0.4 less;\n-1.0 to 1.8)", "(0.3 less;\n-0.7 to 1.3)")
    )
    assert revised(page, ASKED, made_up) == (page, [])


def test_a_sentence_that_its_answer_contradicts_is_named():
    _, faults = revised(PAGE, ASKED, lambda question: Answer(-2.0, -3.0, -1.0, shown=True))
    assert [fault.partition(": ")[2].partition(": ")[2] for fault in faults] == [
        *("-2.0 -3.0 -1.0: less, and not more",) * 3,
        "-2.0 -3.0 -1.0: a difference is shown",
        "-2.0 -3.0 -1.0: less, and not more",
    ]


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        (["mini a b"], "no question for"),
        ([*QUESTIONS, "mini a b"], "no interval for 'mini a b'"),
        (["mini a b up=1"], "up=1 is no flag"),
        (["mini a b alone"] * 30, "no number for 'mini a b alone'"),
    ],
)
def test_questions_have_to_fit_the_section(questions, said):
    with pytest.raises(ValueError, match=said):
        revised(PAGE, ASKED | {"questions": questions}, made_up)


def test_a_heading_that_is_not_there():
    with pytest.raises(ValueError, match="no heading 'Another'"):
        revised(PAGE, ASKED | {"heading": "Another"}, made_up)


def test_of_several_methods_the_least_or_most_is_taken(monkeypatch):
    found = {"a": Answer(1.0, 0.5, 1.5, True), "b": Answer(3.0, -1.0, 7.0, False), "c": Answer(2.0, 1.0, 3.0, True)}
    one = answers.answer

    def known(question: Question) -> Answer:
        return found[question.a] if "|" not in question.a else one(question)

    monkeypatch.setattr(answers, "answer", known)
    asked = [
        known(Question.of(f"mini {which}")) for which in ("a|c x least", "a|c x most", "a|b x most", "a|b x ? most")
    ]
    assert [(each.difference, each.shown) for each in asked] == [(1.0, True), (2.0, True), (3.0, False), (3.0, True)]


def test_what_is_said_without_a_number_is_checked_too():
    said = ASKED | {"said": ["mini c b", "mini d b ?"]}
    faults = revised(PAGE, said, lambda question: Answer(-2.0, -3.0, -1.0, shown=question.shown))[1]
    assert len(faults) == 1 + 4 and faults[-1].endswith("c against b: -2.0 -3.0 -1.0: less, and not more")


def test_the_table_of_schedules_is_the_one_of_the_committed_records(capsys):
    assert main(["leaderboard", str(ROOT / "results" / "ablations"), "--by", "schedule"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(table) == 17
    assert "\n".join(table) in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
