"""The documented table of architectures must list those that these tests verify (``pytest -s`` prints it)."""

from __future__ import annotations

from pathlib import Path

from methods.heads import HeadMap

ROOT = Path(__file__).parents[3]


def test_the_documentation_lists_what_is_verified(zoo):
    lines = []
    for family in zoo.families():
        model = zoo.model(family)
        heads = HeadMap.of(model)
        kinds = ", ".join(dict.fromkeys(site.kind for site in heads.sites))
        grouped = any(site.queries_per_group > 1 for site in heads.sites)
        tied = any(site.calls > 1 for site in heads.sites)
        layouts = [site.layout for site in heads.sites]
        fused = any(len({layout.query, layout.key, layout.value}) < 3 for layout in layouts)  # one module for several
        notes = [note for note, holds in (("grouped", grouped), ("tied", tied), ("fused", fused)) if holds]
        lines.append(f"| {family} | {kinds} | {', '.join(notes)} |")
    print("", *lines, sep="\n")
    page = ROOT / "docs" / "heads.md"
    assert "\n".join(lines) in page.read_text(encoding="utf-8")
