"""Reports are made without torch, and without the code of methods, tasks and suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from bench.analysis.comparing.comparison import compare
from bench.report.comparison_text import text
from bench.report.board import read
from bench.report.leaderboard import write
from bench.report.write import main_table_as, report
folder = Path(sys.argv[1])
write(folder)
text(compare(folder, "michel", "random"))
main_table_as(read(folder), "html")
report(folder, folder / "report")
print(*{"torch", "transformers", "methods", "tasks", "bench.suites", "bench.run", "bench.measure"} & set(sys.modules))
"""


@pytest.mark.slow
def test_reading_records_loads_no_model_code(run):
    folder = run(seeds=1, labels=("michel", "random"), data=("alpha",))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
