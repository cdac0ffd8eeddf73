"""The study of error rates tests as the package does, and its committed table keeps what the statistics promise."""

from __future__ import annotations

import csv
import importlib.util
import re
from math import sqrt

import numpy as np
import pytest

from bench.analysis.stats.signflip import sign_flip_p
from tests.docs.documents import ROOT

STUDIES = ROOT / "docs" / "studies"
NOISES = {
    "one random order against another": "measured",
    "one random order against the mean of ten": "mean of ten",
    "means of ten orders": "steady",
    "normal, eight times as large on one task as on the others": "unequal",
    "better by 4 points on two tasks, worse by 4 on the others": "opposite",
    "exponential, against the mean of ten": "skewed",
}


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("error_rates", STUDIES / "error_rates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rates():
    with (STUDIES / "error_rates.csv").open() as file:
        return {
            (row["test"], row["noise"], int(row["seeds"]), float(row["effect"])): float(row["rate"])
            for row in csv.DictReader(file)
        }


@pytest.mark.parametrize(("n", "room"), [(5, 1e-12), (12, 1e-12), (18, 0.05)])
def test_its_p_values_are_those_of_the_package(study, n, room):
    differences = np.random.default_rng(n).normal(0.4, 1, size=(50, n))
    got = study.flip_test(differences, np.random.default_rng(0))
    assert got == pytest.approx([sign_flip_p(row) for row in differences], abs=room)


def test_false_alarms_are_nominal(study, rates):
    error = 3 * sqrt(study.ALPHA * (1 - study.ALPHA) / study.TRIALS)
    for noise in ("measured", "mean of ten", "steady", "unequal"):
        for seeds in study.SEEDS:
            rate = rates["mean of tasks", noise, seeds, 0]
            assert study.ALPHA - 2 * error <= rate <= study.ALPHA + error, (noise, seeds)
    for seeds in study.SEEDS:  # opposite effects only make it more careful
        assert rates["mean of tasks", "opposite", seeds, 0] <= study.ALPHA + error


def test_three_seeds_on_four_tasks_have_power_where_one_task_has_none(study, rates):
    assert rates["one task", "mean of ten", 3, 4] == rates["mean of tasks, flipped by seed", "mean of ten", 3, 4] == 0
    power = [rates["mean of tasks", "mean of ten", seeds, 4] for seeds in study.SEEDS]
    assert power[0] > 0.3 and power == sorted(power)


def test_they_are_of_the_committed_records(study, rates, monkeypatch):
    monkeypatch.setattr(study, "SEEDS", (3,))  # for which all flips are made
    for test, noise, seeds, effect, rate in study.two_methods(study.pools()):
        assert round(rate, 4) == rates[test, noise, seeds, effect], (test, noise, effect)


def test_the_page_has_its_rates(study, rates):
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    noise, seen = "", 0
    for line in page.splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        noise = NOISES.get(name, noise if not name else "")
        if not noise or not line.startswith("|"):
            continue
        effect = re.fullmatch(r"(\d) points", cells[0])
        digits, shown = (0, cells[1:]) if effect else (1, cells)
        expected = [rates["mean of tasks", noise, seeds, int(effect[1]) if effect else 0] for seeds in study.SEEDS]
        assert shown == [f"{100 * rate:.{digits}f}" for rate in expected], line
        seen += 1
    assert seen == len(NOISES) + 6
