"""Verdicts on one screen: what failed and why, what changed, and in a line each what lost nothing or is the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.analysis.naming import count
from bench.analysis.regression.cells import Twins
from bench.analysis.regression.verdict import CHANGED, FAILED, NO_LOSS, SAME, UNKNOWN, Verdict

MOST = 4  # reasons, remarks or names that are shown


def screen(cells: Twins, verdicts: Sequence[Verdict], baseline: Path, folder: Path) -> str:
    """The whole text, without a final line break: a headline, the environments, then the methods by verdict."""
    failed, unknown = (sum(verdict.status == status for verdict in verdicts) for status in (FAILED, UNKNOWN))
    of_all = f"{_plural(len(verdicts), 'method')}, {_plural(len(cells.pairs), 'cell')}"
    not_known = f" (not known of {count(unknown, 'method')})" if unknown else ""
    lines = [
        f"{_plural(failed, 'regression')} in {of_all}{not_known}: {folder} against {baseline}",
        *origin(cells),
    ]
    for status in (FAILED, UNKNOWN, CHANGED):
        for names, reasons, remarks in _alike(verdict for verdict in verdicts if verdict.status == status):
            lines.append(f"{status:8}{', '.join(names)}")
            lines += [f"          {text}" for text in (*cut(reasons), *cut(remarks))]
    well = (NO_LOSS, SAME)
    for status in well:
        if names := [verdict.label for verdict in verdicts if verdict.status == status]:
            lines.append(f"{status:8}{', '.join(names)}")
    if cells.new:
        lines.append(f"{'new':8}{', '.join(cells.new)} (nothing to compare with)")
    shared: dict[str, list[str]] = {}
    for verdict in verdicts:
        for text in verdict.remarks if verdict.status in well else ():
            shared.setdefault(text, []).append(verdict.label)
    lines += [f"- {text} ({_few(names)})" for text, names in shared.items()]
    return "\n".join([*lines, *(f"- {remark}" for remark in cells.absent)])


def origin(cells: Twins) -> list[str]:
    """The commits, machines and versions of the two sides."""
    old, new = (", ".join(commits[:3]) + ", ..." * (len(commits) > 3) or "unknown" for commits in cells.commits)
    lines = [f"commit: {old}" if old == new else f"commit: {old} -> {new}"]
    changed: dict[str, int] = {}
    for twin in cells.pairs:
        for name, (before, after) in twin.environment_changes.items():
            text = f"{name} {before} -> {after}"
            changed[text] = changed.get(text, 0) + 1
    if changed:
        told = ", ".join(f"{text} ({count(number, 'cell')})" for text, number in changed.items())
        equal = sum(not twin.environment_changes for twin in cells.pairs)
        rest = f" (the other {count(equal, 'cell')} must be equal)" if equal else ""
        lines.append(f"other machine or versions, so results are judged by their effect only{rest}: {told}")
    elif cells.pairs:
        lines.append("same machine and versions, so results must be equal")
    return lines


def _alike(verdicts: Iterable[Verdict]) -> list[tuple[list[str], tuple[str, ...], tuple[str, ...]]]:
    """Methods grouped by equal reasons and remarks."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.reasons, verdict.remarks), []).append(verdict.label)
    return [(names, *texts) for texts, names in groups.items()]


def cut(texts: Sequence[str]) -> list[str]:
    """The first few of ``texts``, and how many more there are."""
    return [*texts[:MOST], f"and {len(texts) - MOST} more"] if len(texts) > MOST + 1 else list(texts)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _plural(number: int, noun: str) -> str:
    return count(number, noun) if number else f"no {noun}s"
