"""Where a record says that it comes from."""

from __future__ import annotations

import subprocess

from bench.records.provenance import provenance


def test_the_commit_is_that_of_the_code_also_in_a_hook_of_another_repository(tmp_path, monkeypatch):
    provenance.cache_clear()
    expected = provenance()
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    provenance.cache_clear()
    assert provenance() == expected
