"""What is wrong with an address is one line."""

from __future__ import annotations

import os
import socket

import pytest

from bench.records.errors import InputError
from bench.run.cluster.connection import connected
from bench.run.options import ClusterOptions

ray = pytest.importorskip("ray", reason="Ray is not installed: headbench[cluster]")


def test_a_missing_client_of_ray_is_no_missing_cluster(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    where = ClusterOptions(address="ray://127.0.0.1:1")
    with pytest.raises(InputError, match=r"needs Ray's client: .*ray\[client\]") as caught, connected(where, 1):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "ray://"])
@pytest.mark.parametrize("given", [True, False])
def test_a_driver_sends_the_token_that_it_has(prefix, given, tmp_path, monkeypatch):
    """Where it has none, what fails says so: a cluster that asks for one only ends the connection."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if given:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a token")
    modes = []

    def refuses(**given: object) -> None:
        modes.append(os.environ.get("RAY_AUTH_MODE"))
        raise ConnectionError("not for you")

    monkeypatch.setattr(ray, "init", refuses)
    before = dict(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as head:
        where = ClusterOptions(address=f"{prefix}127.0.0.1:{head.getsockname()[1]}")
        with pytest.raises(InputError, match=r"answers there.*: not for you") as caught, connected(where, 1):
            pass
    assert modes == ["token" if given else None]
    assert ("RAY_AUTH_TOKEN" in str(caught.value)) != given
    assert dict(os.environ) == before


def test_a_wrong_token_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")

    def refuses(**given: object) -> None:
        raise ConnectionError("failed to connect") from RuntimeError(
            "RPC error: InvalidAuthToken: missing or incorrect"
        )

    monkeypatch.setattr(ray, "init", refuses)
    with socket.create_server(("127.0.0.1", 0)) as head:
        where = ClusterOptions(address=f"127.0.0.1:{head.getsockname()[1]}")
        with pytest.raises(InputError, match=r"asks for a token .*: failed to connect"), connected(where, 1):
            pass
