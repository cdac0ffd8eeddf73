"""What is wrong with an address is one line."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess

import pytest

from bench.records.errors import InputError
from bench.run.cluster.connection import check, connected, host_and_port
from bench.run.options import ClusterOptions

ray = pytest.importorskip("ray", reason="Ray is not installed: headbench[cluster]")


def test_a_missing_client_of_ray_is_no_missing_cluster(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "grpc" else there(name))
    with pytest.raises(InputError, match=r"needs Ray's client: .*ray\[client\]") as caught:
        check("ray://127.0.0.1:1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("10.0.0.1:6379", ("10.0.0.1", "6379")),
        ("ray://head:10001", ("head", "10001")),
        ("[::1]:6379", ("::1", "6379")),
        ("auto", ("", "auto")),
    ],
)
def test_an_address_has_a_host_and_a_port(address, found):
    assert host_and_port(address) == found


@pytest.mark.parametrize(
    "prefix, given, asked, mode",
    [
        ("", True, True, "token"),
        ("", True, False, "disabled"),  # one that sends a token asks the nodes for one too
        ("", False, True, None),
        ("ray://", True, False, "token"),
        ("ray://", False, True, None),
    ],
)
def test_a_driver_sends_its_token_where_it_is_asked_for(prefix, given, asked, mode, tmp_path, monkeypatch):
    """Where it has none, what fails says so: a cluster that asks for one only ends the connection."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if given:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a token")

    def said(command: list[str], env: dict[str, str], **how: object) -> subprocess.CompletedProcess[bytes]:
        assert env["RAY_AUTH_MODE"] == "disabled" and command[-1] == where.address
        return subprocess.CompletedProcess(command, int(asked), stderr=b"RPC error: InvalidAuthToken: .." * asked)

    monkeypatch.setattr(subprocess, "run", said)
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
    assert modes == [mode]
    assert ("RAY_AUTH_TOKEN" in str(caught.value)) != given
    assert dict(os.environ) == before


def test_a_wrong_token_is_named(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")

    def refuses(**given: object) -> None:
        raise ConnectionError("failed to connect") from RuntimeError(
            "RPC error: InvalidAuthToken: missing or incorrect"
        )

    monkeypatch.setattr(ray, "init", refuses)
    with socket.create_server(("127.0.0.1", 0)) as head:
        where = ClusterOptions(address=f"127.0.0.1:{head.getsockname()[1]}")
        with pytest.raises(InputError, match=r"asks for a token .*: failed to connect"), connected(where, 1):
            pass
