"""What a reader must know about records besides their numbers: failures, missing seeds, mixed settings and origins."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from bench.analysis.comparing.comparable import differences_in_words
from bench.analysis.machines import machine
from bench.analysis.naming import count, seeds_in_words
from bench.records.schema import FailedRecord, FinishedRecord, Record, TaskKey

FAR = 0.1  # of the units: how far the gates left open may be from those kept without a note


def notes(records: Sequence[Record]) -> list[str]:
    """Notes on these records, one line each."""
    done = [record for record in records if isinstance(record, FinishedRecord)]
    found = [f"failed: {_where(r)}: {r.reason}" for r in records if isinstance(r, FailedRecord)]
    found += (
        _targets_missed(done)
        + _never_empty(done)
        + _left_alone(done)
        + _cut(done)
        + _ties(done)
        + _gates_missed(done)
        + _fewer_seeds(done)
        + _other_models(done)
        + _disturbed(done)
        + mixed_settings(done)
    )
    for what, values in (
        ("processors", Counter(r.provenance.processor for r in done)),
        ("torch versions", Counter(r.provenance.packages.get("torch") or "unknown" for r in records)),
        ("devices", Counter(r.cell.device for r in done)),
        ("commits", Counter(r.provenance.commit[:12] or "unknown" for r in records)),
    ):
        if len(values) > 1:
            left_out = "; tables leave out the seconds of choosing" if what in ("processors", "devices") else ""
            found.append(f"records of several {what}: {_counted(values)}{left_out}")
    return found + mixed_machines(done)


def _targets_missed(records: Sequence[FinishedRecord]) -> list[str]:
    """Task models that were not trained to the accuracy their recipe aims for."""
    missed = set()
    for record in records:
        cell, training = record.cell, record.result.training
        if training.target_met is False:
            missed.add(
                f"{cell.data}, {cell.model}, seed {cell.seed}: training ended short of its target "
                f"({training.validation_accuracy:.3f} of {training.target:.3f} on validation)"
            )
    return sorted(missed)


def _never_empty(records: Sequence[FinishedRecord]) -> list[str]:
    """Models with attention modules that cannot run without any head."""
    found = {
        f"{record.cell.model}: {len(modules)} of {len(record.result.shape)} attention modules cannot run without any "
        f"head and keep one unit each: at most {record.result.units - len(modules)} of {record.result.units} units go"
        for record in records
        if (modules := record.result.never_empty)
    }
    return sorted(found)


def _left_alone(records: Sequence[FinishedRecord]) -> list[str]:
    """Models with parts whose attention is not understood."""
    found = {
        f"{record.cell.model}: heads of {', '.join(parts)} are no units and stay, as their attention is not understood"
        for record in records
        if (parts := record.result.left_alone)
    }
    return sorted(found)


def _disturbed(records: Sequence[FinishedRecord]) -> list[str]:
    """How many cells were timed while the machine had other work of this user."""
    timed = [latency for record in records if (latency := record.measured.latency)]
    beside = sum(latency.alone is False for latency in timed)
    return [f"{count(beside, 'cell')} timed while another run of the same user was active"] if beside else []


CUT = {
    "documents_cut": (
        "documents are longer than the model's context; they lose their beginning or are scored in windows"
    ),
    "sources_cut": "test sources are longer than the model reads; they lose their end",
}


def _cut(records: Sequence[FinishedRecord]) -> list[str]:
    """Sub-tasks with texts that are longer than the model reads."""
    cut: dict[str, str] = {}
    for record in records:
        for name, value in record.result.metrics[0][0].items():
            where, _, what = name.rpartition("/")
            if what in CUT:
                cut[f"{record.cell.data}, {record.cell.model}, {where}"] = f"{value:.0f} {CUT[what]}"
    return [f"{where}: {told}" for where, told in sorted(cut.items())]


def _ties(records: Sequence[FinishedRecord]) -> list[str]:
    """Methods whose removal orders were in part decided by the indices of units, as importances were equal."""
    tied: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        if any(ties := record.result.ties or []):
            found = tied[record.cell.label]
            found["ties"] += sum(ties)
            found["removals"] += sum(map(len, record.result.orders or []))
            found["cells"] += 1
    return [
        f"{label}: {found['ties']} of {found['removals']} removals in {count(found['cells'], 'cell')} were between "
        "units of equal importance: the one with the lower index went first"
        for label, found in sorted(tied.items())
    ]


def _gates_missed(records: Sequence[FinishedRecord]) -> list[str]:
    """Methods whose closest penalty left quite another number of gates open than a budget keeps, on the mean of seeds.

    Read from ``open`` and ``off_by`` in the reports of a training.
    """
    found: dict[tuple[TaskKey, str], dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        result, training = record.result, record.result.method_training
        for removed, report in (training.reports if training else {}).items():
            if "off_by" in report and 0 < removed < result.units:
                misses = report["open"], report["off_by"] / result.units
                found[record.task, record.cell.label][result.units - removed].append(misses)
    notes = []
    for (task, label), by_kept in sorted(found.items()):
        opened = {kept: np.mean(each, axis=0) for kept, each in sorted(by_kept.items(), reverse=True)}
        if missed := [f"{mean[0]:.0f} where {kept} are kept" for kept, mean in opened.items() if mean[1] > FAR]:
            notes.append(
                f"{', '.join(task)}, {label}: of the penalties tried, the closest left too many or too few gates open, "
                f"on average {', '.join(missed)}"
            )
    return notes


def _fewer_seeds(records: Sequence[FinishedRecord]) -> list[str]:
    """Methods with fewer seeds than others on the same task: their means are over other models and draws."""
    seeds: dict[TaskKey, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        seeds[record.task][record.cell.label].add(record.cell.seed)
    found = []
    for task, of_label in sorted(seeds.items()):
        every = set().union(*of_label.values())
        fewer: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for label, some in sorted(of_label.items()):
            if some != every:
                fewer[tuple(sorted(some))].append(label)
        found += [
            f"{', '.join(task)}: of {len(every)} seeds, {', '.join(labels)}: only {seeds_in_words(some)}"
            for some, labels in sorted(fewer.items())
        ]
    return found


def _other_models(records: Sequence[FinishedRecord]) -> list[str]:
    """Methods that pruned models of other weights than most on the same task and seed, as from another processor."""
    weights: dict[tuple[TaskKey, int], dict[str, str]] = defaultdict(dict)
    for record in records:
        if trained := record.result.training.weights:
            weights[record.task, record.cell.seed][record.cell.label] = trained
    others: dict[tuple[TaskKey, str], list[int]] = defaultdict(list)
    for (task, seed), of_label in sorted(weights.items()):
        usual = Counter(of_label.values()).most_common(1)[0][0]
        for label in sorted(label for label, trained in of_label.items() if trained != usual):
            others[task, label].append(seed)
    alike: dict[tuple[TaskKey, tuple[int, ...]], list[str]] = defaultdict(list)
    for (task, label), seeds in others.items():
        alike[task, tuple(seeds)].append(label)
    return [
        f"{', '.join(task)}: {', '.join(labels)}: pruned models of other weights than the rest in "
        f"{seeds_in_words(seeds)}"
        for (task, seeds), labels in sorted(alike.items())
    ]


def mixed_settings(records: Sequence[FinishedRecord]) -> list[str]:
    """Tasks whose records were measured under different settings: their means should not be compared."""
    found = differences_in_words(records, len)
    return [f"{', '.join(task)}: records of several settings: {settings}" for task, settings in found.items()]


def mixed_machines(records: Sequence[FinishedRecord]) -> list[str]:
    """That latency was measured on several machines, which no mean is taken over."""
    timed = Counter(machine(record) for record in records if record.measured.latency)
    if len(timed) <= 1:
        return []
    return [
        f"timed on several machines: {_counted(timed)}: tables over all of them leave speed-ups out; headbench report "
        "has a table for each machine"
    ]


def _counted(values: Counter[str]) -> str:
    return ", ".join(f"{value} ({number})" for value, number in sorted(values.items()))


def _where(record: Record) -> str:
    cell = record.cell
    return f"{cell.label}, {cell.data}, {cell.model}, seed {cell.seed}"
