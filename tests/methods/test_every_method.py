"""What holds for every registered method, on every kind of model. A new method is covered by being registered."""

from __future__ import annotations

import pytest
import torch

from methods import METHODS
from methods.checks import Case, ConfiguredMethod, NotApplicable, cases

FAST = {
    "attr": {"steps": 4},
    "path": {"points": 2, "rounds": 2},
    "shapley": {"permutations": 8},
}  # options that keep the tests of a costly method fast
CASES = list(cases(ConfiguredMethod.of(name, **FAST.get(METHODS[name].base, {})) for name in METHODS))
WHATEVER_THE_MODEL = {
    "same-seed-same-result",
    "no-side-effects",
    "no-side-effects-after-an-error",
    "nan-is-reported",
    "trained-models-are-ready",
}  # rules of how a method is written, which hardly depends on the model
OF_PADDING = {"padding-and-batching-do-not-matter", "works-in-bfloat16"}  # hardly depend on what heads share
WHATEVER_THE_OPTIONS = {"works-in-bfloat16", "no-side-effects", "no-side-effects-after-an-error"}
ON_CPU = [case for case in CASES if case.check.name != "works-on-cuda"]
ON_CUDA = [case for case in CASES if case.check.name == "works-on-cuda"]


def label(case: Case) -> str:
    return f"{case.configured.label}-{case.check.name}-{case.on.name}"


def parameter(case: Case):
    """The case, marked as slow where it is unlikely to show anything that others do not.

    A method runs on one model and on those that differ for it; a variant, which runs the code of its method, on the
    first alone, and not under rules that options hardly matter to. Rules of how a method is written need one model. The
    Llama padded on the left is for rules that padding matters to, which in turn leave out units of one query head and
    layers that share weights.
    """
    method, first = case.configured.method, CASES[0].on.name
    models = {first} if method.base != method.name else {first, "llama-left", "llama-query", "albert"}
    if case.check.name in WHATEVER_THE_MODEL:
        models = {first}
    models -= {"llama-query", "albert"} if case.check.name in OF_PADDING else {"llama-left"}
    if method.base != method.name and case.check.name in WHATEVER_THE_OPTIONS:
        models = set()
    slow = case.on.name not in models
    return pytest.param(case, id=label(case), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("case", [parameter(case) for case in ON_CPU])
def test_it_keeps_the_rules(case):
    try:
        case.run()
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_it_works_on_cuda(subtests):
    for case in ON_CUDA:
        with subtests.test(label(case)):
            case.run()
