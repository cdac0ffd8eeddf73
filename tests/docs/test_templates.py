"""The templates of methods in CONTRIBUTING work when installed as a package of their own."""

from __future__ import annotations

from pathlib import Path

from bench.__main__ import main

TEMPLATE = Path(__file__).parent / "templates" / "attention_method.py"


def test_the_attention_method_passes_all_checks(plugin, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where there are no records to compare it with
    plugin(TEMPLATE.read_text(encoding="utf-8"))
    assert main(["check", "confidence"]) == 0
    output = capsys.readouterr()
    assert "  ok       padding-and-batching-do-not-matter" in output.out.splitlines() and not output.err
