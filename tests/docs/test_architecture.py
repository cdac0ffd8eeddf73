"""The table of packages in ``docs/architecture.md`` has every package, with what it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    ".".join(file.parent.relative_to(ROOT).parts): file.parent
    for name in ("bench", "methods", "tasks")
    for file in (ROOT / name).rglob("__init__.py")
}


def imported_modules(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def package_of(module: str) -> str | None:
    """The package in the repository that holds ``module``, or a name in that module."""
    while module and module not in PACKAGES:
        module = module.rpartition(".")[0]
    return module or None


def area(package: str) -> str:
    """``bench.report`` for ``bench.report.pages``."""
    return ".".join(package.split(".")[:2])


def imports(package: str) -> list[str]:
    """Packages that ``package`` imports: by area, or in full where they are of the same area."""
    modules = (module for file in PACKAGES[package].glob("*.py") for module in imported_modules(file))
    found = {other for module in modules if (other := package_of(module)) and other != package}
    return sorted({other if area(other) == area(package) else area(other) for other in found})


def test_every_package_is_in_the_table_with_its_imports():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| .* \| (.*) \|$", page, re.MULTILINE))
    expected = {package: ", ".join(f"`{name}`" for name in imports(package)) for package in PACKAGES}
    assert rows.keys() == expected.keys()
    assert [
        f"{package} imports {expected[package]}" for package in rows if rows[package].strip() != expected[package]
    ] == []
