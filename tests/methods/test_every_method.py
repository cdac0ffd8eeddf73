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
ON_CPU = [case for case in CASES if case.check.name != "works-on-cuda"]
ON_CUDA = [case for case in CASES if case.check.name == "works-on-cuda"]


def label(case: Case) -> str:
    return f"{case.configured.label}-{case.check.name}-{case.on.name}"


def parameter(case: Case):
    """The case; that of a variant, which runs the code of its method, is slow on all models but one."""
    method = case.configured.method
    slow = method.base != method.name and case.on.name != CASES[0].on.name
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
