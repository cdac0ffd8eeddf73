"""The templates of methods in CONTRIBUTING work when installed as a package of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATE = Path(__file__).parent / "templates" / "attention_method.py"


def test_the_attention_method_passes_all_checks(package, tmp_path):
    site = package(TEMPLATE.read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, "-m", "bench", "check", "confidence"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, site]))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "  ok       padding-and-batching-do-not-matter" in done.stdout.splitlines()
