"""Registration, options from signatures, and messages for options that are not valid."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

import pytest

from bench.__main__ import main
from bench.suites.parse import parse_methods
from methods import METHODS, AtLeast, AtMost, OptionError, joint, scorer, selector
from methods.contract.method import RECOVER
from methods.contract.options import Option, plain


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Remove what a test registers."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def example(
    *given,
    flag: Annotated[bool, "a switch"] = True,
    count: Annotated[int, "a number of things", AtLeast(1)] = 2,
    rate: Annotated[float, "a rate", AtLeast(0), AtMost(9)] = 0.5,
    word: Annotated[str, "some text"] = "x",
    kind: Annotated[Literal["a", "b"], "one of two"] = "a",
    size: Annotated[Literal[1, 2], "one of two numbers"] = 1,
):
    """Score nothing.

    A second paragraph.
    """


def register(name="example", **arguments):
    scorer(name, source="nowhere", **arguments)(example)
    return METHODS[name]


def test_options_are_read_from_the_signature():
    method = register()
    own = {name: (o.type, o.default, o.help, o.lowest, o.highest) for name, o in method.options.items()}
    assert own["flag"] == (bool, True, "a switch", None, None)
    assert own["count"] == (int, 2, "a number of things", 1, None)
    assert own["kind"] == (Literal["a", "b"], "a", "one of two", None, None)
    assert own["rate"] == (float, 0.5, "a rate", 0, 9)
    names = ["flag", "count", "rate", "word", "kind", "size", "recompute", "inverse", "allocation", "layer_norm"]
    assert list(own) == names
    assert method.summary == "Score nothing."
    selector("example-mask", source="nowhere")(example)
    assert list(METHODS["example-mask"].options) == names[:6]  # a selector has no schedule


@pytest.mark.parametrize(
    ("name", "given", "parsed"),
    [
        ("flag", "false", False),
        ("flag", "True", True),
        ("flag", False, False),
        ("count", "12", 12),
        ("count", 3.0, 3),
        ("rate", "1e-7", 1e-7),
        ("rate", 2, 2.0),
        ("rate", "0", 0.0),
        ("word", "a b", "a b"),
        ("kind", "b", "b"),
        ("size", "2", 2),
        ("size", 2, 2),
    ],
)
def test_values_are_parsed(name, given, parsed):
    value = register().configure({name: given})[name]
    assert value == parsed
    assert type(value) is type(parsed)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("flag", "maybe", "true or false"),
        ("flag", 1, "true or false"),
        ("count", "1.5", "a whole number, at least 1"),
        ("count", 1.5, "a whole number, at least 1"),
        ("count", "0", "a whole number, at least 1"),
        ("count", -3, "a whole number, at least 1"),
        ("count", True, "a whole number, at least 1"),
        ("count", "1" + "0" * 400 + ".0", "a whole number, at least 1"),
        ("rate", 10**400, "a number, at least 0, at most 9"),
        ("count", math.inf, "a whole number, at least 1"),
        ("count", None, "a whole number, at least 1"),
        ("rate", "-0.1", "a number, at least 0, at most 9"),
        ("rate", "9.1", "a number, at least 0, at most 9"),
        ("rate", "nan", "a number, at least 0, at most 9"),
        ("rate", "inf", "a number, at least 0, at most 9"),
        ("rate", "", "a number, at least 0, at most 9"),
        ("kind", "c", "one of a, b"),
        ("size", "3", "one of 1, 2"),
    ],
)
def test_invalid_values_are_refused(name, given, expected):
    with pytest.raises(OptionError) as error:
        register().configure({name: given})
    assert str(error.value) == f"option {name}={given}: expected {expected}"


def test_values_that_do_not_go_together_are_refused():
    def check(options):
        if options["count"] < options["size"]:
            raise OptionError(f"count={options['count']}: expected size={options['size']} at least")

    for decorator in scorer, selector, joint:
        METHODS.pop("example", None)
        decorator("example", source="nowhere", check=check)(example)
        assert METHODS["example"].configure({"count": "1"})["count"] == 1  # the default of size is 1
        with pytest.raises(OptionError, match="count=1: expected size=2 at least"):
            METHODS["example"].configure({"count": "1", "size": "2"})
    with pytest.raises(OptionError, match="expected size=2"):
        register("another", variants={"fewest": {"count": 1, "size": 2}}, check=check)
    assert not {"another", "fewest"} & METHODS.keys()


def test_an_unknown_option_names_the_nearest():
    method = register()
    with pytest.raises(OptionError, match=r"method example has no option 'cuont'; did you mean count\?"):
        method.configure({"cuont": 1})
    with pytest.raises(OptionError, match=r"no option 'zzz'; available: flag, count, .*, allocation"):
        method.configure({"zzz": 1})
    with pytest.raises(OptionError, match=r"method none has no option 'x'; available: recover"):
        METHODS["none"].configure({"x": 1})


@pytest.mark.parametrize(
    "options",
    [
        "michel:recompute=-1",
        "random:draws=0",
        "random:draws=10001",
        "ae:eps=nan",
        "gnorm:combine=mean",
        "michel:recomptue=1",
        "none:recompute=1",
    ],
)
def test_the_command_line_refuses_them_in_one_line(options, capsys):
    assert main(["run", "--methods", options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("headbench: error: ")
    assert captured.err.count("\n") == 1


def test_a_name_is_taken_once():
    register()
    with pytest.raises(ValueError, match=r"method 'example' of .* is already registered by .*test_registry"):
        register()
    with pytest.raises(ValueError, match=r"'example' .* already registered"):
        register("other", variants={"example": {"inverse": True}})
    assert "other" not in METHODS  # all names of a method, or none
    with pytest.raises(ValueError, match=r"'none' .* already registered by methods\.none"):
        selector("none", source="nowhere")(example)


@pytest.mark.parametrize("name", ["", "all", "_mine", "-mine", "a,b", "a:b", "a b", "a=b", "a/b"])
def test_a_name_can_be_given_on_the_command_line(name):
    for wrong in ({"name": name}, {"variants": {name: {"inverse": True}}}):
        with pytest.raises(ValueError, match=f"method '{name}': a name consists of letters, digits"):
            register(**wrong)
    assert not {"example", name} & METHODS.keys()


def test_a_variant_may_leave_recovery_out():
    selector("tuned", source="nowhere", recover="scale", variants={"plain": {"recover": "none"}})(example)
    assert METHODS["tuned"].configure({})["recover"] == "scale" and "recover" not in METHODS["plain"].configure({})


def test_variants_are_presets():
    method = register(variants={"backward": {"inverse": True, "count": "7"}, "other": {"kind": "b"}})
    backward = METHODS["backward"]
    assert (method.base, backward.base, backward.function) == ("example", "example", method.function)
    assert backward.presets == {"inverse": True, "count": 7}
    assert backward.configure({}) == method.configure({}) | {"inverse": True, "count": 7}
    assert backward.configure({"count": 3})["count"] == 3
    assert (method.control, backward.control, METHODS["other"].control) == (False, True, False)
    for presets in {"nuocnt": 1}, {"count": 0}:
        with pytest.raises(OptionError):
            register("third", variants={"fourth": presets})
    assert not {"third", "fourth"} & set(METHODS)


def test_a_joint_method_may_train_nothing():
    def found(view, budgets):
        yield from ()

    joint("trains", source="a paper")(found)
    joint("solves", source="a paper", training_free=True, variants={"solves-more": {}})(found)
    assert [METHODS[name].trains for name in ("trains", "solves", "solves-more", "michel")] == [True, *[False] * 3]
    assert METHODS["solves"].role == "joint, training-free" and METHODS["none"].role == "selector, control"


def test_a_control_stays_one_when_weights_are_recovered():
    for name, control in (("random", True), ("random-both", True), ("inverse-gnorm", True), ("michel", False)):
        method = METHODS[name]
        options = method.configure({"recover": "lstsq"})
        assert method.is_control(options) == control
        assert method.label(options) == f"{name}:recover=lstsq"
    michel = METHODS["michel"]
    assert michel.is_control(michel.configure({"recover": "bias", "inverse": "true"}))


def test_a_label_shows_what_differs_in_a_stable_order():
    method = register(variants={"backward": {"inverse": True}})
    assert method.label(method.configure({})) == "example"
    given = {"recompute": "3", "flag": "false", "count": "2"}
    assert method.label(method.configure(given)) == "example:flag=false,recompute=3"
    assert method.label(method.configure(dict(reversed(given.items())))) == "example:flag=false,recompute=3"
    backward = METHODS["backward"]
    assert backward.label(backward.configure({"inverse": "true"})) == "backward"
    assert backward.label(backward.configure({"inverse": "false"})) == "backward:inverse=false"


def test_a_label_is_read_back():
    for method in list(METHODS.values()):
        options = method.configure({})
        changed: dict[str, Any] = {name: not value for name, value in options.items() if isinstance(value, bool)}
        highest = {name: option.highest for name, option in method.options.items()}
        numbers = {name: value for name, value in options.items() if type(value) in (int, float)}
        changed |= {name: value + 2 if highest[name] is None else highest[name] for name, value in numbers.items()}
        for some in (changed, *({name: value} for name, value in changed.items()), {}):
            try:
                given = method.configure(some)
            except OptionError:  # they do not go together
                assert method.check is not None
                continue
            (spec,) = parse_methods(method.label(given))
            assert (spec.name, spec.options) == (method.name, given)


def without_default(view, *, x: Annotated[int, "x"]): ...


def without_meaning(view, *, x: int = 1): ...


def without_annotation(view, *, x=1): ...


def by_its_place(view, x: Annotated[int, "x"] = 1): ...


def of_nothing(): ...


def with_any_options(view, **others): ...


def of_a_strange_type(view, *, x: Annotated[list, "x"] = ()): ...


def with_a_wrong_default(view, *, x: Annotated[int, "x", AtLeast(2)] = 1): ...


def with_an_option_of_the_schedule(view, *, recompute: Annotated[int, "x"] = 1): ...


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (without_default, OptionError, "option x needs a default"),
        (
            without_meaning,
            TypeError,
            "option x: annotate it as Annotated[bool, int, float, str or Literal, '",
        ),
        (without_annotation, TypeError, "option x: annotate it as Annotated["),
        (of_a_strange_type, TypeError, "option x: annotate it as Annotated["),
        (with_a_wrong_default, OptionError, "option x=1: expected a whole number, at least 2"),
        (by_its_place, ValueError, "put `*` before x: options are keyword arguments"),
        (of_nothing, ValueError, "its function takes 0 arguments by place, and is given 1"),
        (with_any_options, ValueError, "name each option instead of **others"),
        (with_an_option_of_the_schedule, ValueError, "the schedule already has an option recompute"),
    ],
)
def test_a_faulty_signature_is_refused_at_registration(function, error, said):
    with pytest.raises(error, match=re.escape(f"method 'faulty': {said}")):
        scorer("faulty", source="nowhere")(function)
    assert "faulty" not in METHODS


def test_every_registered_option_takes_its_own_default():
    for method in METHODS.values():
        for name, value in method.configure({}).items():
            option = {**method.options, RECOVER.name: RECOVER}[name]
            assert isinstance(option, Option)
            assert option.parse(plain(value)) == value
            assert option.help
        assert method.summary
        assert method.source
