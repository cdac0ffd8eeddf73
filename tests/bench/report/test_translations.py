"""Translations on the page of a task: every text is there, escaped, beside who made it."""

from __future__ import annotations

import csv

import pytest

from bench.report.figures.looks import looks
from bench.report.pages.task import task_page
from bench.report.tables.translations import translations


@pytest.fixture
def translated(make_record, hostile):
    """A record with two examples; the second is hostile, and its translations tell ``label`` and ``seed``."""

    def record(label: str, seed: int = 0, **fields):
        own = [
            {"source": source, "reference": f"{source} there", "translations": texts}
            for source, texts in (("one", {0: "whole", 4: ""}), (hostile, {0: hostile, 4: f"{hostile} {label} {seed}"}))
        ]
        return make_record(label, seed=seed, result={"translations": own}, **fields)

    return record


def test_each_example_has_its_source_reference_and_translations_of_the_first_seed(
    translated, make_record, board_of, hostile
):
    records = [translated("michel", 1), translated("michel", 2), translated("gnorm", 1), translated("late", 2)]
    records += [translated("none", 1, kept=[list(range(8))] * 3), make_record("ae", seed=1)]
    table = translations(board := board_of(records), board.tasks[0])
    assert table is not None and [group for group, _ in table.parts] == ["example 1", "example 2"]
    (_, first), (_, second) = table.parts
    rows = [[cell.shown for cell in table.rows[row]] for row in second]
    assert rows == [
        ["source", "", hostile],
        ["reference", "", f"{hostile} there"],
        ["unpruned", "0", hostile],
        ["gnorm", "4", f"{hostile} gnorm 1"],
        ["michel", "4", f"{hostile} michel 1"],
    ]
    assert [table.rows[row][2].shown for row in first] == ["one", "one there", "whole", "", ""]


def test_a_record_of_other_examples_is_left_out_of_those_it_lacks(translated, board_of):
    fewer = translated("michel")
    fewer.result.translations.pop()
    table = translations(board := board_of([translated("gnorm"), fewer]), board.tasks[0])
    assert table is not None
    assert [[table.rows[row][0].shown for row in rows][3:] for _, rows in table.parts] == [
        ["gnorm", "michel"],
        ["gnorm"],
    ]


@pytest.mark.usefixtures("undrawn")
def test_they_are_escaped_on_the_page_and_bare_in_a_file(translated, make_record, board_of, parse, hostile):
    board = board_of([translated("michel"), translated("gnorm")])
    files = task_page(board, board.tasks[0], looks(board))
    (content,) = [content.decode() for name, content in files.items() if name.endswith(".html")]
    page = parse(content)
    assert "translations" in page.ids and f"{hostile} michel 0" in page.text and hostile not in content
    (file,) = [content.decode() for name, content in files.items() if name.endswith("-translations.csv")]
    assert [row["text"] for row in csv.DictReader(file.splitlines()) if row["of"] == "michel"] == [
        "",
        f"{hostile} michel 0",
    ]
    plain = board_of([make_record("michel")])
    assert not any("translations" in name for name in task_page(plain, plain.tasks[0], looks(plain)))
