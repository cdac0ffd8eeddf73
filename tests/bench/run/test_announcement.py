"""What a run says before it begins."""

from __future__ import annotations

import re
from collections import Counter, namedtuple

import pytest

from bench.__main__ import main
from bench.run import announcement
from bench.run.announcement import MOST, state_lines
from bench.run.estimates import shapes
from bench.run.jobs import CellJob, ordered_jobs
from bench.suites.cells import Cell, open_task
from bench.suites.parse import MethodSpec
from bench.suites.plugins import load_plugins
from methods import METHODS
from tasks.request import TaskSpec

load_plugins()
SEEDS = 40
Usage = namedtuple("Usage", "total used free")


def cells(*methods: str, data: str = "data", seeds: int = SEEDS) -> list[Cell]:
    spec = TaskSpec(task="mnli")
    names = [MethodSpec(name, METHODS[name].configure({})) for name in methods]
    return [
        Cell(spec, data, "model", name, seed, (0, 1), 8, 1.0, "cpu", str((data, name.name, seed)))
        for seed in range(seeds)
        for name in names
    ]


def test_few_cells_are_named_one_by_one(place):
    some = cells("none", "ae", seeds=MOST // 2)
    lines = list(state_lines(dict.fromkeys(some, "missing")))
    assert lines == [f"missing  {cell.name}" for cell in some]


def test_many_cells_are_counted_by_task_and_state_and_none_is_lost():
    states = dict.fromkeys([*cells("none", "ae", "michel"), *cells("none", "ae", data="other")], "missing")
    for cell in states:
        if cell.data == "data" and (cell.method.name == "none" or (cell.method.name == "ae" and cell.seed < 7)):
            states[cell] = "done"
    states[cells("michel")[0]] = "failed"
    lines = list(state_lines(states))
    by_state = Counter(states.values())
    found = Counter()
    for line in lines:
        state, number = line.split()[:2]
        found[state] += int(number)
    assert found == by_state
    done = next(line for line in lines if line.startswith("done"))
    assert "none (40 of 40 seeds)" in done and "ae (7 of 40 seeds)" in done and "michel" not in done
    missing = [line for line in lines if line.startswith("missing")]
    assert "ae (33 of 40 seeds)" in missing[0] and "michel (39 of 40 seeds)" in missing[0]
    assert missing[1] == "missing  80 of 80 mnli.other.model: all 2 methods"


def test_a_model_is_looked_for_once(place, monkeypatch):
    asked = []
    task = type(open_task(TaskSpec(task="mnli")))
    monkeypatch.setattr(task, "prepared", lambda self, seed, cache: asked.append(seed) or seed == 1)
    jobs = ordered_jobs(cells("none", "ae", "michel", seeds=3), place.cache, 2)
    assert sorted(asked) == [0, 1, 2]
    assert len(jobs) == 9 + 2


def test_seeds_are_run_in_turn_also_where_less_is_left_of_one_task(place):
    left = [*cells("none", seeds=3)[1:], *cells("none", seeds=3, data="other")]
    jobs = ordered_jobs(left, place.cache, 1)
    assert [job.cell.seed for job in jobs if isinstance(job, CellJob)] == [0, 1, 1, 2, 2]


def test_a_dry_run_estimates_a_model_that_no_record_knows(place, capsys, monkeypatch):
    monkeypatch.setattr(announcement, "flops_per_second", lambda device, threads, dtype: 1e3)
    assert place.run("--methods", "none,michel", "--finetune", "--dry-run") == 0
    said = capsys.readouterr().out
    assert (
        "estimates where no record tells, from shapes" in said
        and "8 heads, " in said
        and "training: 1 model of" in said
    )
    assert f"needs model {place.model}: {place.model}" in said and f"needs data {place.data}: {place.data}" in said
    assert " MB for 1 model in " in said and "in all about" in said
    assert not place.cache.exists() and not place.out.exists()


def test_no_number_of_processes_makes_a_training_and_its_longest_cell_shorter(place, capsys, monkeypatch):
    monkeypatch.setattr(announcement, "flops_per_second", lambda device, threads, dtype: 1e3 * threads)
    monkeypatch.setattr(announcement, "duration", lambda seconds: f"<{seconds:.0f}>")

    def told(*flags: str) -> int:
        assert place.run("--methods", "none,dsp-joint", "--finetune", "--dry-run", *flags) == 0
        return int(re.search(r"in all about <(\d+)>", capsys.readouterr().out)[1])

    one, many = told(), told("--jobs", "64")
    assert one / 4 < many < one
    assert told("--jobs", "64", "--engine", "ray", "--cpus-per-cell", "2") == pytest.approx(many / 2, rel=1e-2)


def passes(said: str) -> list[str]:
    """The methods whose passes a dry run gives, in its order."""
    lines = said.partition("evaluations on the test split")[2].splitlines()[1:]
    return [label for line in lines if line.startswith("        ") for label in line.rpartition(": ")[2].split(", ")]


def test_passes_are_given_of_methods_that_no_record_knows_on_that_model(place, capsys, monkeypatch):
    """A finished cell tells of the time of others on its model, and of the passes of its own method alone."""
    monkeypatch.setattr(announcement, "flops_per_second", lambda device, threads, dtype: 1e3)
    wanted = ("--methods", "none,magnitude,michel,dsp-joint", "--dry-run")
    assert place.run(*wanted) == 0
    said = capsys.readouterr().out
    assert sorted(passes(said)) == ["dsp-joint", "magnitude", "michel", "none"] and "in all about" in said
    assert place.run("--methods", "none,magnitude") == 0
    capsys.readouterr()
    assert place.run(*wanted) == 0
    said = capsys.readouterr().out
    assert sorted(passes(said)) == ["dsp-joint", "michel"] and "memory: " in said and "1 + 1, and 1" in said
    assert "to do: 2 cells, about " in said and "in all about" not in said  # the time is that of records
    assert (
        place.run(*wanted, "--data", str(place.data), "--limit", "150") == 0
    )  # another data set, which no record knows
    assert sorted(passes(capsys.readouterr().out)) == ["dsp-joint", "magnitude", "michel", "none"]


def test_of_own_data_nothing_is_told_before_something_is_known(place, capsys):
    """Shipped costs are those of other data; with them goes no time for a given model either."""
    own = ["run", "--task", "classification", "--data", place.data, "--out", place.out, "--seeds", 1, "--jobs", 1]
    flags = ["--methods", "none", "--no-latency", "--device", "cpu", "--dry-run"]
    assert main([str(each) for each in (*own, *flags)]) == 0
    said = capsys.readouterr().out
    assert "  to do: 1 cell after training 1 model, on 1 process (cpu)\n" in said and "in all" not in said


def test_what_records_know_is_not_estimated(place, capsys):
    assert place.run("--methods", "none,michel") == 0
    capsys.readouterr()
    for seeds, left in (("1", 0), ("3", 4)):
        assert place.run("--methods", "none,michel", "--dry-run", "--seeds", seeds) == 0
        said = capsys.readouterr().out
        assert "estimates" not in said and (f"to do: {left} cells, about " in said) == bool(left)
        assert bool(left) == ("to do" in said)
    place.timed = True
    assert place.run("--methods", "none,michel", "--dry-run") == 0
    said = capsys.readouterr().out
    assert re.search(r"to do: the smaller models of 2 cells are timed, about \d+ (ms|s|min) on cpu", said), said


def test_a_disk_that_is_too_small_ends_the_run_before_it_trains(place, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**9, 10**9, 1000))
    for flags, variable in (((), "HEADBENCH_CACHE"), (("--dry-run",), "HEADBENCH_CACHE"), (("--no-cache",), "TMPDIR")):
        assert place.run("--methods", "none", "--finetune", *flags) == 2
        error = capsys.readouterr().err
        assert "are needed, 0 MB are free: make room, or set " + variable in error, error
    assert not place.cache.exists() and place.files() == {}
    assert place.run("--methods", "none", "--dry-run") == 0  # trains nothing


def test_a_pruned_model_has_the_shape_of_what_is_left(place, tiny_model, tmp_path):
    from bench.__main__ import main

    smaller = tmp_path / "smaller"
    own = ["--task", "classification", "--model", str(tiny_model), "--data", str(place.data), "--device", "cpu"]
    assert main(["prune", *own, "--method", "magnitude", "--keep", "0.5", "--out", str(smaller)]) == 0
    task = open_task(TaskSpec(task="classification", model=str(smaller), data=str(place.data)))
    shape = shapes.shape_of(task)
    assert len(shape.heads) == 4
    assert shape.parameters == sum(parameter.numel() for parameter in task.validate().parameters())
