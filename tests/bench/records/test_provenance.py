"""Where a record says that it comes from."""

from __future__ import annotations

import platform
import subprocess

import pytest

from bench.records.provenance import described, provenance

X86 = "processor\t: 0\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: V\nflags\t\t: fpu {}\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nprocessor\t: 1\n"


def test_the_commit_is_that_of_the_code_also_in_a_hook_of_another_repository(tmp_path, monkeypatch):
    provenance.cache_clear()
    expected = provenance()
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    provenance.cache_clear()
    assert provenance() == expected


def test_code_counts_as_changed_where_git_does_not_say_that_it_is_not(monkeypatch):
    run = subprocess.run

    def slow(command, **options):
        if "status" in command:
            raise subprocess.TimeoutExpired(command, 20)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", slow)
    found = provenance.__wrapped__()
    assert found.dirty is bool(found.commit)


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (X86.format(25, 1, "avx avx2"), "V (family 25, model 1, avx2)"),
        (X86.format(25, 17, "avx2 avx512f avx"), "V (family 25, model 17, avx512f)"),
        (X86.format(25, 17, "sse2"), "V (family 25, model 17)"),
        (ARM, f"{platform.machine()} (implementer 0x41, part 0xd40, sve)"),
        ("cpu\t\t: POWER9\n", ""),
    ],
    ids=["avx2", "avx512f", "sse2", "arm", "other"],
)
def test_processors_of_one_name_are_told_apart(cpuinfo, name):
    """As of a cloud, which may name every generation alike."""
    assert described(cpuinfo) == name
