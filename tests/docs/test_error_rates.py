"""The study of error rates tests as the package does, and its committed table keeps what the statistics promise."""

from __future__ import annotations

import csv
import importlib.util
from math import sqrt

import numpy as np
import pytest

from bench.analysis.stats.signflip import sign_flip_p
from tests.docs.documents import ROOT

STUDIES = ROOT / "docs" / "studies"


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
