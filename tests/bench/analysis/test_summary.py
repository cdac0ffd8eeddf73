"""Means and spreads over seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bench.analysis.summary import mean_and_spread, over_seeds


def test_the_spread_is_that_of_a_sample():
    mean, spread = mean_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert mean.tolist() == [2, 5] and spread == pytest.approx([np.sqrt(2), 0])
    assert np.isnan(mean_and_spread(np.array([[1.0, 5.0]]))[1]).all()


def test_a_value_that_one_seed_lacks_has_no_mean():
    table = pd.DataFrame({"label": ["a", "a", "b"], "whole": [1.0, 3.0, 4.0], "partial": [1.0, np.nan, 4.0]})
    means, spreads = over_seeds(table, ["label"])
    assert means["whole"].to_dict() == {"a": 2, "b": 4} and spreads["whole"]["a"] == pytest.approx(np.sqrt(2))
    assert np.isnan(means["partial"]["a"]) and means["partial"]["b"] == 4 and np.isnan(spreads["whole"]["b"])
