"""The files of a report that pictures and tables come with."""

from __future__ import annotations

from collections.abc import Iterable

from bench.report.figures.picture import Picture
from bench.report.tables.table import Table, latex, to_csv

Files = dict[str, bytes]  # by path in the report


def files_of(pictures: Iterable[Picture], tables: Iterable[Table]) -> Files:
    """Each picture in its forms, each table as CSV and LaTeX."""
    files = {f"figures/{each.name}.{form}": content for each in pictures for form, content in each.files.items()}
    for table in tables:
        files[f"tables/{table.name}.csv"] = to_csv(table)
        files[f"tables/{table.name}.tex"] = latex(table)
    return files
