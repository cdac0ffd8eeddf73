"""The documents of the record's schema are those that the schema gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.records.document import files
from bench.records.schema import RECORD

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", files())
def test_committed_documents_are_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == files()[name], "run `python -m bench.records`"


def test_every_field_has_a_description():
    rows = [line.split(" | ") for line in files()["records.md"].splitlines() if line.startswith("| `")]
    assert len(rows) > 60 and not [row[0] for row in rows if not row[2].strip(" |")]


def test_the_schema_declares_both_kinds_of_record(make_record):
    schema = json.loads(files()["record.schema.json"])
    assert schema["discriminator"]["mapping"].keys() == {"done", "failed"}
    written = make_record().model_dump(mode="json")
    assert set(schema["$defs"]["FinishedRecord"]["properties"]) == set(written)
    assert RECORD.validate_json(json.dumps(written), strict=True) == make_record()
