"""All methods give the same records on a cluster as on one machine."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest

from methods import METHODS
from tests.fixtures.runs import Place

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"
)


@dataclass
class Smoke(Place):
    """A place for runs of the suite smoke."""

    def cells(self, *flags: str, out: Path | None = None) -> list[str]:
        return ["--suite", "smoke", "--device", "cpu", "--no-latency", "--out", str(out or self.out), *flags]


@pytest.mark.slow
def test_the_smoke_suite_of_all_methods_is_that_of_one_machine(tmp_path, nodes, tiny_data, tiny_model, monkeypatch):
    """Scorers, selectors, joint methods and those that recover: five minutes on two busy cores."""
    cluster, alone = (Smoke(tmp_path / name, tiny_data, tiny_model) for name in ("cluster", "alone"))
    cluster.folder.mkdir()
    run = nodes.run(cluster)
    assert run.result() == 0, run.output.read_text()
    monkeypatch.setenv("HEADBENCH_CACHE", str(alone.cache))
    assert alone.run("--jobs", "2") == 0
    found, expected = cluster.results(), alone.results()
    assert found.keys() == expected.keys() and len(found) >= len(METHODS)
    assert [name for name in expected if found[name] != expected[name]] == []
