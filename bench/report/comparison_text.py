"""A comparison of two methods as text: the result in words, then tables, then remarks on the records."""

from __future__ import annotations

from bench.analysis.comparing.comparison import Comparison, TaskComparison
from bench.analysis.naming import fixed, p_equals, p_in_words
from bench.analysis.stats.pairs import Difference
from bench.report.tables.markdown import aligned, literal

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def text(comparison: Comparison) -> str:
    """The comparison in Markdown, without a final line break."""
    parts = [f"{comparison.unlike}."] if comparison.unlike else []
    parts += [words(comparison), _seed_table(comparison)]
    if any(task.documents for task in comparison.tasks):
        parts.append(_document_table(comparison))
    if any(task.agreement for task in comparison.tasks):
        parts.append(_order_table(comparison))
    if comparison.remarks:
        parts.append("\n".join(f"- {' '.join(remark.split())}" for remark in comparison.remarks))
    return "\n\n".join(parts)


def words(comparison: Comparison) -> str:
    """The result in sentences: the mean over tasks, then the tasks whose result is another."""
    sentences = [_whole(comparison)]
    if len(comparison.tasks) > 1:
        sentences += _by_task(comparison, comparison.overall)
    sentences += [f"Note that {caveat}." for caveat in comparison.caveats]
    return " ".join(sentences)


def _whole(comparison: Comparison) -> str:
    """A sentence on the whole difference: its size, what it is of, how certain it is, and over how many seeds."""
    a, b, overall, where = comparison.a, comparison.b, comparison.overall, comparison.where
    winner, loser = (a, b) if overall.mean >= 0 else (b, a)
    digits = _digits(overall) if _shown(overall, comparison) else 1
    points = f"{abs(overall.mean):.{digits}f} points"
    kept = f"{winner} kept {points} more {comparison.quality} than {loser}"
    if points == "0.0 points":
        kept = f"{a} and {b} kept as much {comparison.quality}"
    seeds = _seeds(overall.seeds)
    if overall.p is None:
        these = f"this {seeds}" if max(overall.seeds) == 1 else f"these {seeds}"
        return (
            f"In {these} {kept} {where}, but so few cannot show a difference at the {100 * comparison.alpha:g} % "
            f"level: {_seeds((overall.seeds_needed(),) * len(overall.seeds))} are needed."
        )
    interval = _interval(overall, comparison.alpha, digits, turned=winner == b and points != "0.0 points")
    if _shown(overall, comparison):
        return f"{winner} keeps {points} more {comparison.quality} than {loser} {where}, {interval}; {seeds}."
    return f"No difference was shown: {kept} {where}, {interval}, {p_equals(overall.p)}; {seeds}."


def _seeds(of_tasks: tuple[int, ...]) -> str:
    """``ten seeds``, and of several tasks ``ten seeds on each of four tasks``."""
    low, high = min(of_tasks), max(of_tasks)
    seeds = f"{_number(low)} seed{'s' * (low > 1)}" if low == high else f"{_number(low)} to {_number(high)} seeds"
    return f"{seeds} on each of {_number(len(of_tasks))} tasks" if len(of_tasks) > 1 else seeds


def _by_task(comparison: Comparison, overall: Difference) -> list[str]:
    """Sentences on the tasks whose result is not that of the mean over tasks, ``overall``."""
    said = _winner(comparison, overall.mean) if _shown(overall, comparison) else ""
    few: list[TaskComparison] = []
    none: list[TaskComparison] = []
    same: list[TaskComparison] = []
    other: list[TaskComparison] = []
    for task in comparison.tasks:
        if task.holm is None:
            few.append(task)
        elif task.holm > comparison.alpha:
            none.append(task)
        else:
            (same if _winner(comparison, task.difference.mean) == said else other).append(task)
    sentences = []
    if said and len(same) == len(comparison.tasks):
        sentences.append(f"The same was shown on each of the {_number(len(same))} tasks.")
    for task in other:
        winner = _winner(comparison, task.difference.mean)
        size = f"{abs(task.difference.mean):.{_digits(task.difference)}f}"
        sentences.append(f"On {literal(task.name)} {winner} keeps {size} points more.")
    if none and (said or other or overall.p is None):
        sentences.append(f"No difference was shown on {_list(none)}.")
    elif none:
        sentences.append(f"Nor was one shown on {_list(none)} alone.")
    if few:
        tests = len(comparison.tasks)
        needed = _number(few[0].difference.seeds_needed(tests))
        alone = "a single task" if len(few) == tests else f"{_list(few)} alone"
        sentences.append(f"For {alone}, {needed} seeds are needed, corrected for {_number(tests)} tasks.")
    return sentences


def _seed_table(comparison: Comparison) -> str:
    a, b, several = literal(comparison.a), literal(comparison.b), len(comparison.tasks) > 1
    confidence = f"{100 * (1 - comparison.alpha):g} % interval"
    rows = [[f"{comparison.quality} (points)", "seeds", a, b, "difference", confidence, "p", f"P({a} above {b})"]]
    if several:
        rows[0].insert(7, "p (Holm)")
    for task in comparison.tasks:
        d = task.difference
        row = [literal(task.name), *map(str, d.seeds), f"{task.a:.1f}", f"{task.b:.1f}", *_figures(d), f"{d.beats:.2f}"]
        if several:
            row.insert(7, _needs(d.seeds_needed(len(comparison.tasks))) if task.holm is None else p_in_words(task.holm))
        rows.append(row)
    if several:
        overall = comparison.overall
        rows.append(["mean of tasks", str(sum(overall.seeds)), "", "", *_figures(overall), "", f"{overall.beats:.2f}"])
    return (
        f"Across seeds, {comparison.where}; {comparison.quality} is not scaled by chance, unlike the leaderboard's "
        "area; p is that of the sign-flip test on differences paired by seed; P counts ties half\n\n" + aligned(rows)
    )


def _document_table(comparison: Comparison) -> str:
    rows = [
        [
            "documents",
            "seed",
            f"{literal(comparison.a)} alone",
            f"{literal(comparison.b)} alone",
            "McNemar's p",
            "p (Holm)",
        ]
    ]
    lines = []
    for task in comparison.tasks:
        if not (documents := task.documents):
            continue
        interval = documents.interval
        lines.append(
            f"- {literal(task.name)}: difference {fixed(interval.mean, 1)} points, "
            f"{100 * (1 - comparison.alpha):g} % interval over documents "
            f"{fixed(interval.low, 1)} to {fixed(interval.high, 1)}"
            + ("" if documents.mcnemar else f"; no McNemar test, as {documents.no_mcnemar}")
        )
        for seed, test, p in zip(task.seeds, documents.mcnemar, documents.holm, strict=False):
            won = (str(test.only_a), str(test.only_b))
            rows.append([literal(task.name), str(seed), *won, p_in_words(test.p), p_in_words(p)])
    heading = "On the same test examples, for these models: how many only one of the two methods gets right"
    return "\n\n".join([heading, *([aligned(rows)] if len(rows) > 1 else []), "\n".join(lines)])


def _order_table(comparison: Comparison) -> str:
    a, b = literal(comparison.a), literal(comparison.b)
    rows = [
        ["removal orders", "Kendall's tau", "first units shared", "by chance", f"{a} over seeds", f"{b} over seeds"]
    ]
    for task in comparison.tasks:
        if found := task.agreement:
            tau, *stable = ["–" if value != value else fixed(value, 2) for value in (found.tau, *found.stable)]
            shared = f"{100 * found.overlap:.0f} % of {found.k}"
            rows.append([literal(task.name), tau, shared, f"{100 * found.k / found.units:.0f} %", *stable])
    return "Agreement of removal orders; over seeds: Kendall's tau of a method with itself\n\n" + (aligned(rows))


def _figures(d: Difference) -> list[str]:
    interval = "–" if d.interval is None else f"{fixed(d.interval[0], 1)} to {fixed(d.interval[1], 1)}"
    return [fixed(d.mean, 1, "+"), interval, _needs(d.seeds_needed()) if d.p is None else p_in_words(d.p)]


def _needs(seeds: int) -> str:
    return f"needs {seeds} seeds"


def _digits(d: Difference) -> int:
    """Decimals of a difference that was shown: one, or as many as tell it from 0."""
    return next((digits for digits in range(1, 8) if round(d.mean, digits)), 1)


def _interval(d: Difference, alpha: float, digits: int, turned: bool) -> str:
    low, high = d.interval or (float("nan"), float("nan"))
    low, high = (-high, -low) if turned else (low, high)
    return f"{100 * (1 - alpha):g} % interval {fixed(low, digits)} to {fixed(high, digits)}"


def _shown(d: Difference, comparison: Comparison) -> bool:
    return d.p is not None and d.p <= comparison.alpha


def _winner(comparison: Comparison, mean: float) -> str:
    return comparison.a if mean > 0 else comparison.b if mean < 0 else ""


def _number(n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def _list(tasks: list[TaskComparison]) -> str:
    names = [literal(task.name) for task in tasks]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
