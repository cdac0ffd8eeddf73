"""Where a record comes from: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.records.schema import Provenance

PACKAGES = (  # packages that can change a result or the tables drawn from it
    *("headbench", "torch", "transformers", "tokenizers", "safetensors", "datasets", "babel", "numpy", "pandas"),
    *("accelerate", "lm_eval", "peft", "sacrebleu", "scipy"),
)


VECTORS = ("avx512f", "avx2", "avx", "sve2", "sve", "asimd")  # flags, from the widest on


@cache
def provenance() -> Provenance:
    """Versions, machine and git state of the code, read once per process."""
    commit = _git("rev-parse", "HEAD") or ""
    # What git cannot say, as it took too long, may be any code.
    changed = _git("--no-optional-locks", "status", "--porcelain", "--", "bench", "methods", "tasks") != ""
    return Provenance(
        python=platform.python_version(),
        packages={name: version_of(name) for name in PACKAGES},
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        commit=commit,
        dirty=bool(commit) and changed,
    )


def version_of(name: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        return described(Path("/proc/cpuinfo").read_text()) or platform.machine()
    except OSError:
        return platform.processor()


def described(cpuinfo: str) -> str:
    """The first processor of Linux's list: its name, and what tells it from others that a cloud gives the same name.

    Kernels for other vector instructions add in another order, so that results differ in the last bits.
    """
    lines = (line.partition(":") for line in cpuinfo.partition("\n\n")[0].splitlines())
    found = {name.strip(): value.strip() for name, _, value in lines}
    parts = (("family", "cpu family"), ("model", "model"), ("implementer", "CPU implementer"), ("part", "CPU part"))
    more = [f"{word} {found[name]}" for word, name in parts if name in found]
    flags = (found.get("flags") or found.get("Features", "")).split()
    widest = next((flag for flag in VECTORS if flag in flags), None)
    more += [widest] if widest else []
    name = found.get("model name", platform.machine() if more else "")
    return f"{name} ({', '.join(more)})" if more else name


def _git(*arguments: str) -> str | None:
    """The output of git in this checkout; None outside a checkout, without git, and where it fails."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    # Hooks of git name the repository that they are of, which may be another.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
