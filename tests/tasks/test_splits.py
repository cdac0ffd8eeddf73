"""Splits are disjoint, complete and the same on every machine, whatever the order of the rows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.data.splits import disjoint, index_of, limited
from tasks.errors import TaskError

TEXTS = st.lists(st.text("abcdefgh ", min_size=1, max_size=4), min_size=30, max_size=120)


def rows(texts, start=0):
    return [((text,), "odd" if (place + start) % 2 else "even") for place, text in enumerate(texts)]


def split(given, labels=()):
    """The splits of ``given``; examples that cannot make three splits are no examples of anything here."""
    try:
        return disjoint("data", given, labels)
    except TaskError:
        assume(False)


def texts_of(data: Dataset) -> dict[str, set[tuple[str, ...]]]:
    return {name: {example.texts for example in getattr(data, name)} for name in SPLITS}


def assert_sound(data: Dataset) -> None:
    texts = texts_of(data)
    assert not texts["train"] & texts["validation"] | texts["train"] & texts["test"]
    assert not texts["validation"] & texts["test"]
    for name in SPLITS:
        assert getattr(data, name)
        assert {example.label for example in getattr(data, name)} <= set(range(len(data.labels)))


@given(TEXTS)
def test_undivided_rows_make_three_disjoint_splits_that_hold_them_all(texts):
    data = split({"all": rows(texts)})
    assert_sound(data)
    assert set().union(*texts_of(data).values()) == {(text,) for text in texts}


def test_rows_of_the_test_split_that_repeat_a_text_are_told():
    train, validation = rows(["a", "b", "c", "d"]), rows(["e", "f"])
    test = [(("x",), "odd"), (("x",), "odd"), (("x",), "even"), (("y",), "even"), (("y",), "even")]

    def said(test):
        return disjoint("data", {"train": train, "validation": validation, "test": test}, ()).remarks

    assert said(test) == ("3 of 5 rows of test repeat texts of others, and 1 text has several labels",)
    assert said(test[1:2] + test[3:]) == ("1 of 3 rows of test repeat texts of others",)
    assert said(test[1:4:2]) == ()


def test_few_texts_that_are_repeated_often_are_few():
    with pytest.raises(TaskError, match=r"the \w+ split is empty \(too few different texts, or no file for it\)"):
        disjoint("data", {"all": rows(["a", "b"]) * 50}, ())


@given(TEXTS, st.randoms())
def test_the_order_of_the_rows_moves_none_to_another_split(texts, draw):
    given = rows(texts)
    shuffled = draw.sample(given, len(given))
    one, other = split({"all": given}), split({"all": shuffled})
    for name in SPLITS:
        assert sorted(getattr(one, name)) == sorted(getattr(other, name))


@given(TEXTS, TEXTS, TEXTS)
def test_splits_that_overlap_become_disjoint_and_the_test_split_stays_whole(train, validation, test):
    data = split({"train": rows(train), "validation": rows(validation), "test": rows(test)})
    assert_sound(data)
    assert len(data.test) == len(test)
    assert texts_of(data)["validation"] == {(text,) for text in validation} - {(text,) for text in test}


@given(TEXTS, TEXTS)
def test_without_a_test_split_validation_is_the_test(train, validation):
    data = split({"train": rows(train), "validation": rows(validation)})
    assert_sound(data)
    assert len(data.test) == len(validation)


@given(TEXTS, TEXTS)
def test_without_a_validation_split_some_training_rows_become_it(train, test):
    data = split({"train": rows(train), "test": rows(test)})
    assert_sound(data)
    assert texts_of(data)["train"] | texts_of(data)["validation"] == {(t,) for t in train} - {(t,) for t in test}


@given(TEXTS)
def test_nothing_but_a_training_split_is_divided_like_a_single_file(texts):
    assert split({"train": rows(texts)}) == split({"all": rows(texts)})


def test_an_example_that_moves_to_another_split_makes_another_data_set():
    rows = [Example((str(number),), number % 2) for number in range(6)]
    one, other = (Dataset("d", ("no", "yes"), rows[:end], rows[end:5], rows[5:]) for end in (3, 2))
    assert one.fingerprint != other.fingerprint


def test_undivided_rows_go_80_10_10():
    data = disjoint("data", {"all": rows([f"text {number}" for number in range(5000)])}, ())
    assert [round(len(getattr(data, name)) / 5000, 1) for name in SPLITS] == [0.8, 0.1, 0.1]


@given(TEXTS, st.integers(2, 40))
def test_a_limit_leaves_that_many_of_each_split_the_same_ones_in_any_order(texts, limit):
    given = rows(texts)
    try:
        one = limited(split({"all": given}), limit)
        other = limited(split({"all": given[::-1]}), limit)
    except TaskError:
        assume(False)
    for name in SPLITS:
        assert len(getattr(one, name)) <= limit
        assert {example.texts for example in getattr(one, name)} == {e.texts for e in getattr(other, name)}


def test_a_limit_that_leaves_one_class_is_refused():
    data = disjoint("data", {"all": rows([f"text {number}" for number in range(100)])}, ())
    with pytest.raises(TaskError, match="--limit 1: leaves one class only in the train split of data"):
        limited(data, 1)


def test_classes_are_in_the_order_of_their_numbers_or_names():
    many = {"all": [((f"text {number}",), number % 11) for number in range(300)]}
    assert disjoint("data", many, ()).labels == tuple(map(str, range(11)))
    named = {"all": [((f"text {number}",), "bca"[number % 3]) for number in range(300)]}
    assert disjoint("data", named, ()).labels == ("a", "b", "c")


def test_fixed_classes_take_numbers_as_places_and_names_in_any_case():
    labels = ("entailment", "neutral", "contradiction")
    by_number = disjoint("data", {"all": [((f"t {n}",), n % 3) for n in range(300)]}, labels)
    by_name = disjoint("data", {"all": [((f"t {n}",), labels[n % 3].upper()) for n in range(300)]}, labels)
    assert by_number == by_name and by_number.labels == labels
    assert Example(("t 4",), 1) in by_number.train + by_number.validation + by_number.test


def test_names_that_differ_in_case_only_are_two_classes():
    data = disjoint("data", {"all": [((f"t {n}",), "Aa"[n % 2]) for n in range(300)]}, ("A", "a"))
    assert {example.label for example in data.train} == {0, 1}
    assert index_of("A", ("a", "A")) == 1 and index_of("B", ("a", "b")) == 1 and index_of("X", ("x", "X ")) == 0
    assert index_of("é", ("x", "y")) is None and index_of("AB", ("ab", "Ab")) is None


def test_rows_of_texts_alone_lack_no_label():
    with pytest.raises(TaskError, match=r"^file\.txt: no row with text$"):
        disjoint("data", {}, ("text",), where="file.txt")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no row with a label"),
        ({"all": []}, "no row with a label"),
        ({"all": rows("ab")}, "split is empty"),
        ({"test": rows(map(str, range(50)))}, "no training split, only test"),
        ({"train": rows("ab"), "validation": rows("ab"), "test": rows("ab")}, "all its texts are in a later split"),
        ({"all": [((str(n),), "x") for n in range(99)]}, "the train split has one class only .'x'.; at least two"),
        (
            {"train": rows(map(str, range(99))), "test": [((f"t{n}",), "odd") for n in range(9)]},
            "the test split has one class only .'odd'.",
        ),
        ({"all": [((str(n),), ["x", 1][n % 2]) for n in range(99)]}, "text in some rows and numbers in others"),
    ],
)
def test_rows_that_make_no_data_set_are_refused(given, said):
    with pytest.raises(TaskError, match=f"^file.jsonl: .*{said}"):
        disjoint("data", given, (), where="file.jsonl")


@pytest.mark.parametrize("label", ["z", 3, -2])
def test_a_label_that_the_task_does_not_have_is_named(label):
    with pytest.raises(TaskError, match=f"label {label!r} is not one of a, b, c"):
        disjoint("data", {"all": [((str(n),), label) for n in range(99)]}, ("a", "b", "c"))
