"""What holds for every registered method, on every kind of model. A new method is covered by being registered."""

from __future__ import annotations

import pytest

from methods import METHODS
from methods.checks import Case, NotApplicable, Subject, cases

QUICK = {"attr": {"steps": 4}, "shapley": {"permutations": 8}}  # options that keep a costly method's tests quick


def subject(name: str) -> Subject:
    return Subject.of(name, **QUICK.get(METHODS[name].base, {}))


def called(case: Case) -> str:
    return f"{case.subject.label}-{case.check.name}-{case.scene.name}"


@pytest.mark.parametrize("case", list(cases(map(subject, METHODS))), ids=called)
def test_it_keeps_the_rules(case):
    try:
        case.run()
    except NotApplicable as reason:
        pytest.skip(str(reason))
