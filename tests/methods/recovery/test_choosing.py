"""The option ``recover`` changes the weights of what is chosen, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import pytest
import torch

from bench.suites.keys import method_part
from bench.suites.parse import parse_methods
from methods import METHODS, Kept, OptionError, selector
from methods.contract import choosing
from methods.heads import find_mlps
from methods.recovery.choosing import choose, select
from methods.recovery.recover import recover

REMOVED = [0, 3, 8]


def view_of(tiny):
    return tiny.view(tiny.model("bert").requires_grad_(False), [tiny.batch(tiny.sentences(0, count=9))])


@pytest.mark.parametrize("name", ["michel", "fisher-rearranged"])
def test_every_choice_that_lacks_something_is_recovered(tiny, name):
    method, view = METHODS[name], view_of(tiny)
    plain = choosing.select(method, method.configure({}), view, REMOVED)
    (draw,) = choose(method, method.configure({"recover": "lstsq"}), view, REMOVED)
    choices = list(draw.choices)
    assert not draw.nested
    assert (draw.trajectory is None) == (method.shape == "selector")
    for (count, choice), removed, old in zip(choices, REMOVED, plain.choices[0], strict=True):
        assert count == removed and torch.equal(choice.mask, old.mask)
        if not removed:
            assert choice.model is view.model and not choice.report
            continue
        expected = recover(view, old, "lstsq")
        assert choice.report == {"recovered": expected.recovered, "unchanged": expected.unchanged}
        state = expected.choice.model.state_dict()
        assert all(torch.equal(value, state[path]) for path, value in choice.model.state_dict().items())
        assert not torch.equal(
            torch.cat([value.flatten() for value in state.values()]),
            torch.cat([value.flatten() for value in view.model.state_dict().values()]),
        )
    (again,) = select(method, method.configure({"recover": "lstsq"}), view, REMOVED).choices
    assert [choice.report for choice in again] == [choice.report for _, choice in choices]


def test_without_it_choices_are_those_of_the_contract(tiny):
    method, view = METHODS["michel"], view_of(tiny)
    (draw,) = choose(method, method.configure({"recover": "none"}), view, REMOVED)
    assert draw.nested and all(choice.model is view.model for _, choice in draw.choices)


def test_a_selector_with_neurons_may_keep_any_number_of_units(tiny, monkeypatch):
    monkeypatch.setattr("methods.contract.registry.METHODS", registered := {})

    @selector("split", source="test", recover="scale", neurons={"parts": ["both"]})
    def split(view, keep, *, parts: Annotated[Literal["heads", "both"], "what goes"] = "heads"):
        mask = torch.arange(len(view.heads)) < (keep if parts == "heads" else keep + 1)
        neurons = {mlp.name: torch.arange(mlp.width) < keep for mlp in find_mlps(view.model)}
        return mask if parts == "heads" else Kept(mask, neurons)

    method, view = registered["split"], view_of(tiny)
    assert method.configure({}) == {"parts": "heads", "recover": "scale"}
    assert method.label(method.configure({})) == "split"
    plain = method.configure({"recover": "none", "parts": "both"})
    assert plain == {"parts": "both"} and method.label(plain) == "split:parts=both,recover=none"
    for options in (plain, method.configure({"parts": "both"})):
        (draw,) = choose(method, options, view, [3, 5])
        assert not draw.nested and draw.trajectory is None
        for count, choice in draw.choices:
            assert choice.removed == count - 1
            assert {int(mask.sum()) for mask in choice.neurons.values()} == {len(view.heads) - count}
            assert (choice.model is view.model) == ("recover" not in options)
    wrong = dataclasses.replace(method, function=lambda view, keep, parts: view.heads.full_mask())
    with pytest.raises(ValueError, match="mask keeps 8 units, the budget is 5"):
        select(wrong, {"parts": "heads"}, view, [3])
    with pytest.raises(ValueError, match="returned a Tensor, expected a Kept"):
        select(dataclasses.replace(wrong, neurons={"parts": ["heads"]}), {"parts": "heads"}, view, [3])


def test_joint_methods_have_no_such_option():
    with pytest.raises(OptionError, match="method voita has no option 'recover'"):
        METHODS["voita"].configure({"recover": "bias"})
    with pytest.raises(OptionError, match=r"recover=all: expected one of none, bias, scale, scale-damped, lstsq"):
        METHODS["michel"].configure({"recover": "all"})


def test_keys_and_names_are_as_before_where_nothing_is_recovered():
    plain, same, other, third = (
        parse_methods(f"michel{options}")[0] for options in ("", ":recover=none", ":recover=bias", ":recover=scale")
    )
    assert plain == same and plain.label == same.label == "michel" and "recover" not in plain.options
    assert other.label == "michel:recover=bias"
    parts = [method_part(spec, 1.0) for spec in (plain, other, third)]
    assert parts[0] == method_part(same, 1.0)
    assert len(parts[0]) + 1 == len(parts[1]) and parts[1] != parts[2]
    heads, both = (method_part(spec, 1.0) for spec in parse_methods("kwon:recover=none,kwon:recover=none,parts=both"))
    assert len(heads) + 1 == len(both)  # the code that makes choices of heads and neurons
