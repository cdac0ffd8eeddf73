"""A cluster that asks for a token, as those do that are started by a user who has one."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Iterator

import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module", autouse=True)
def token(tmp_path_factory) -> Iterator[str]:
    """That of the cluster, which is started after this."""
    home, token = tmp_path_factory.mktemp("home"), secrets.token_hex(32)
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text(token)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(home))
        patch.setenv("RAY_AUTH_MODE", "token")
        yield token


@pytest.fixture
def flags(nodes, monkeypatch) -> tuple[str, ...]:
    """Of runs that find out by themselves how to connect."""
    monkeypatch.delenv("RAY_AUTH_MODE")
    return *nodes.flags, "--jobs", "1", "--methods", "none"


def test_a_driver_sends_the_token_of_its_user(place, flags):
    run = place.start(*flags)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 0, said
    assert [record["status"] for record in place.records().values()] == ["done"]


@pytest.mark.parametrize("given", ["", secrets.token_hex(32)], ids=["none", "another"])
def test_a_driver_without_it_says_what_is_missing(place, flags, given, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    if given:
        monkeypatch.setenv("RAY_AUTH_TOKEN", given)
    run = place.start(*flags)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 2 and "Traceback" not in said, said
    assert "(one that asks for a token answers only where RAY_AUTH_TOKEN or ~/.ray/auth_token has it)" in said
    assert place.files() == {}
