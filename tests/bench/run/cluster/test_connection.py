"""What is wrong with an address is one line."""

from __future__ import annotations

import pytest

from bench.records.errors import InputError
from bench.run.cluster.connection import connected
from bench.run.options import ClusterOptions

pytest.importorskip("ray", reason="Ray is not installed: headbench[cluster]")


def test_a_missing_client_of_ray_is_no_missing_cluster(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    where = ClusterOptions(address="ray://127.0.0.1:1")
    with pytest.raises(InputError, match=r"needs Ray's client: .*ray\[client\]") as caught, connected(where, 1):
        pass
    assert "\n" not in str(caught.value)
