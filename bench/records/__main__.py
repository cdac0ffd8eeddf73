"""``python -m bench.records``: write the schema of a record to ``docs/``."""

from pathlib import Path

from bench.records.document import files

DOCS = Path(__file__).parents[2] / "docs"

for name, content in files().items():
    (DOCS / name).write_text(content, encoding="utf-8")
