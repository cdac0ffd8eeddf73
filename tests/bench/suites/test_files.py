"""Suites: what a command line or a TOML file may say, and what is said of one that cannot be."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.timing import timed_levels
from bench.records.errors import InputError
from bench.records.protocol import count_at
from bench.suites.files import built_in_suites, load_suite
from bench.suites.parse import parse_levels, parse_methods, parse_seeds
from bench.suites.suite import Suite
from bench.suites.validate import task_spec
from methods import METHODS
from tasks.models.train import fine_tuning
from tasks.request import TaskSpec

TASK = '[[tasks]]\ntask = "classification"\n'


@pytest.fixture(autouse=True)
def registries():
    load_suite("mini")


@pytest.fixture
def toml(tmp_path):
    def write(content: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (0, 1, 2)), ("1", (0,)), ("0,4,7", (0, 4, 7)), ("7,", (7,)), (" 5 , 2", (5, 2))]
)
def test_seeds_are_a_number_of_them_or_themselves(text, seeds):
    assert parse_seeds(text) == seeds


def test_levels_are_shares_or_percentages_and_always_hold_both_ends():
    assert parse_levels("50%,0.25") == (0, 0.25, 0.5, 1)
    assert parse_levels("0.5, 50%") == (0, 0.5, 1)
    assert parse_levels("all") == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(1, 200))
def test_numbers_of_units_removed_ascend_from_none_to_all(levels, units):
    parsed = parse_levels(",".join(map(repr, levels)))
    removed = Suite(name="s", tasks=(), methods=(), levels=parsed).removed(units)
    assert removed[0] == 0 and removed[-1] == units
    assert removed == sorted(set(removed))
    assert all(abs(count_at(level, units) - level * units) <= 0.5 for level in parsed)


def test_all_levels_are_every_number_of_units():
    assert Suite(name="s", tasks=(), methods=(), levels=()).removed(3) == [0, 1, 2, 3]


def test_all_methods_are_every_one_once_and_none_comes_first():
    names = [spec.name for spec in parse_methods("all")]
    assert names[0] == "none" and sorted(names) == sorted(METHODS)


def test_options_go_to_the_method_before_them():
    specs = parse_methods("none, michel:layer_norm=false,recompute=2,random")
    assert [spec.label for spec in specs] == ["none", "michel:layer_norm=false,recompute=2", "random"]


def test_all_can_be_followed_by_a_variant_and_repeats_count_once():
    specs = parse_methods("all,michel:layer_norm=false,michel,none")
    assert len(specs) == len(METHODS) + 1


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        ("premise, hypothesis", ("premise", "hypothesis")),
        ('"a,b"', ("a,b",)),
        ("ä/x y", ("ä/x y",)),
    ],
)
def test_columns_are_one_or_a_pair_and_a_comma_can_be_quoted(text, columns):
    assert TaskSpec(task="mnli", data="d", text=text).text == columns


@pytest.mark.parametrize("text", [",", "a,", ",a"])
def test_a_column_without_a_name_is_refused(text):
    with pytest.raises(InputError, match=f"^text {text}: expected COLUMN, or COLUMN,COLUMN$"):
        task_spec({"task": "mnli", "data": "d", "text": text}, lambda key, value: f"{key} {value}")


def test_a_request_is_a_cache_key_that_can_be_sent_to_a_process_and_read_from_a_record():
    spec = TaskSpec(task="mnli", data="d", text=["a", "b"], limit=3)
    assert {spec: 1}[TaskSpec(task="mnli", data="d", text="a,b", limit=3)] == 1
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert TaskSpec(**json.loads(spec.model_dump_json())) == spec


def test_the_ablations_cross_every_score_with_every_schedule():
    """Within a layer the norm changes no order, so of four ways to rank there are three."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    for spec in load_suite("ablations").methods:
        if spec.name not in ("none", "random"):
            schedule = tuple(spec.options[name] for name in ("allocation", "layer_norm", "recompute"))
            found.setdefault(spec.name, set()).add(schedule)
    ways = {("global", False), ("global", True), ("layer", False)}
    assert set(found) == {"michel", "gnorm", "ae", "attr", "tis", "magnitude", "amp-heads"}
    assert all(schedules == {(*way, every) for way in ways for every in (0, 1)} for schedules in found.values())


def test_every_built_in_suite_loads():
    papers = {"amp", "dsp", "dsp-translation", "greedy-gnorm", "hies"}
    own = {"ablations", "mini", "real", "real-llama", "real-trained", "smoke", "translation"}
    assert {*built_in_suites()} == own | papers
    for name in built_in_suites():
        suite = load_suite(name)
        assert suite.tasks and suite.methods and suite.seeds
        assert suite.generate == (name in ("amp", "dsp-translation", "translation"))


def test_the_suite_of_dsp_trains_with_and_without_annealing():
    """Rows that differ in the temperatures alone; the 12 heads at which the paper times models are a timed level."""
    suite = load_suite("dsp")
    temperatures = {"start_temperature", "end_temperature"}
    joint = [spec.options for spec in suite.methods if spec.name == "dsp-joint"]
    constant = [options for options in joint if options["start_temperature"] == options["end_temperature"] > 0]
    annealed = [options for options in joint if not any(options[name] for name in temperatures)]  # by the schedule
    ((one, other),) = [(one, other) for one in annealed for other in constant]
    assert {name for name in one if one[name] != other[name]} == temperatures
    removed = suite.removed(144)
    assert len(removed) == 22 + 2
    assert timed_levels(tuple(removed), 144, suite.generate) == [0, 36, 72, 108, 132]


def test_the_suite_of_amp_is_the_papers_protocol():
    """These heads of each of 32 layers; two of the three epochs that the task takes, to the step; one text a batch."""
    suite = load_suite("amp")
    assert suite.removed(32 * 32) == [32 * heads for heads in (0, 3, 7, 10, 15, 17, 30, 32)]
    assert suite.calibration == 50
    assert {spec.options["batch_size"] for spec in suite.methods if spec.name == "amp-recovered"} == {1}
    for examples in range(1, 60000, 977):
        steps = fine_tuning(examples, batch_size=8).shortened(suite.training).max_steps
        assert steps == 2 * -(-examples // 8)


def test_a_file_says_everything_that_a_command_line_says(toml):
    suite = load_suite(
        toml(
            'methods = ["none", "michel:layer_norm=false"]\nseeds = [4, 5]\nlevels = [0.5]\ncalibration = 16\n'
            '[[tasks]]\ntask = "mnli"\ndata = "d.csv"\ntext = "a,b"\nlabel = "y"\nlimit = 9\n'
            '[[tasks]]\ntask = "classification"\ndata = "d.csv"\ntext = ["a,b"]\nfinetune = true\nmodel = "m"\n'
            '[[tasks]]\ntask = "classification"\ntrain = "a.csv"\ntest = "c.csv"\n'
        )
    )
    assert suite.name == "mine" and suite.seeds == (4, 5) and suite.levels == (0, 0.5, 1) and suite.calibration == 16
    assert [spec.label for spec in suite.methods] == ["none", "michel:layer_norm=false"]
    first, second, third = suite.tasks
    assert third.source == {"train": "a.csv", "test": "c.csv"} and first.source == "d.csv"
    assert first.text == ("a", "b") and first.label == "y" and first.limit == 9
    assert second.text == ("a,b",) and second.finetune and second.model == "m"


def test_a_byte_order_mark_is_no_part_of_a_suite(tmp_path):
    (tmp_path / "mine.toml").write_text(TASK, encoding="utf-8-sig")
    assert load_suite(str(tmp_path / "mine.toml")).tasks[0].task == "classification"


def test_one_seed_in_a_list_is_that_seed(toml):
    assert load_suite(toml("seeds = [7]\n" + TASK)).seeds == (7,)
    assert load_suite(toml("seeds = 7\n" + TASK)).seeds == tuple(range(7))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("tasks = [", "not valid TOML"),
        pytest.param(f"seeds = {'1' * 5000}\n" + TASK, "not valid TOML", id="a number of 5000 digits"),
        pytest.param("methods = " + "[" * 5000 + "]" * 5000, "not valid TOML", id="lists in lists"),
        ("methds = 'all'\n" + TASK, "'methds': did you mean 'methods'?"),
        ("[[tasks]]\ntask = 'mnli'\ndta = 'x'", "'dta': did you mean 'data'?"),
        ("seeds = 3", "expected at least one [[tasks]] table"),
        ("tasks = []", "expected at least one [[tasks]] table"),
        ("tasks = 5", "expected at least one [[tasks]] table"),
        ("[tasks]\ntask = 'mnli'", "expected at least one [[tasks]] table"),
        ("[[tasks]]\ndata = 'x'", "a [[tasks]] table has no task = NAME; available: classification"),
        ("[[tasks]]\ntask = 'mnlii'", "unknown task 'mnlii': did you mean 'mnli'?"),
        ("[[tasks]]\ntask = 5", "task key task = 5: expected text"),
        ("[[tasks]]\ntask = 'mnli'\nlimit = 'x'", "task key limit = 'x': expected a whole number"),
        ("[[tasks]]\ntask = 'mnli'\nlimit = -1", "task key limit = -1: expected a whole number"),
        ("[[tasks]]\ntask = 'mnli'\nlimit = true", "task key limit = True: expected a whole number"),
        ("[[tasks]]\ntask = 'mnli'\nfinetune = true", "--finetune is for a model of your own: add --model (in a suite"),
        ("[[tasks]]\ntask = 'mnli'\nfinetune = 1", "task key finetune = 1: expected true or false"),
        ("[[tasks]]\ntask = 'mnli'\ntext = [1]", "task key text = [1]: expected text, or a list of texts"),
        ("[[tasks]]\ntask = 'mnli'\ndata = ''", "task key data = '': expected text"),
        ("[[tasks]]\ntask = 'harness'\nharness_tasks = []", "task key harness_tasks = []: expected text, or a list of"),
        ("[[tasks]]\ntask = 'mnli'\nunit = 'x'", "task key unit = 'x': expected one of group, query"),
        ("name = 'x'\n" + TASK, "unknown key in suite"),
        ("[[tasks]]\ntask = 'mnli'\nlabel = 'y'", "columns for the text or the label need data"),
        ("generate = 1\n" + TASK, "generate = 1: expected true or false"),
        ("calibration = 0\n" + TASK, "calibration = 0: expected a whole number, at least 1"),
        ("calibration_from = 'test'\n" + TASK, "calibration_from = 'test': expected one of held-out, train"),
        ("calibration = true\n" + TASK, "calibration = True: expected a whole number, at least 1"),
        ("seeds = 0\n" + TASK, "seeds '0': expected a number of seeds"),
        ("seeds = 'x'\n" + TASK, "seeds 'x': expected a number of seeds"),
        ("levels = [2.0]\n" + TASK, "level '2.0': expected a share"),
        ("levels = []\n" + TASK, "level '': expected a share"),
        ("methods = ['micheel']\n" + TASK, "unknown method 'micheel': did you mean 'michel'?"),
        ("methods = [1]\n" + TASK, "unknown method '1'"),
        ("training = 1e-300\n" + TASK, "training = 1e-300: expected a share from 0.000001 (less is not one step) to 1"),
        (TASK + TASK, "the task classification is listed twice, with the same data and model"),
        (TASK + "mirror = 'nowhere'", "mirror nowhere: no such folder"),
    ],
)
def test_a_file_that_cannot_be_is_refused_by_name(toml, complaint, content, said):
    path = toml(content)
    line = complaint("run", "--suite", path)
    assert said in line and f"suite {path}" in line


def test_a_file_that_is_not_there_or_not_text_is_refused(complaint, tmp_path):
    assert complaint("run", "--suite", "no/where.toml") == "suite no/where.toml: No such file or directory"
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "not valid TOML" in complaint("run", "--suite", tmp_path / "binary.toml")
    (tmp_path / "folder.toml").mkdir()
    assert "Is a directory" in complaint("run", "--suite", tmp_path / "folder.toml")


def test_a_folder_with_the_name_of_a_suite_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mini", "own"):
        (tmp_path / name).mkdir()
    assert load_suite("mini").name == "mini"
    with pytest.raises(InputError, match=r"^suite own: expected the name of a built-in suite, or a path that ends in"):
        load_suite("own")


def test_a_mirror_in_the_users_folder_is_found(toml, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "copies").mkdir()
    (task,) = load_suite(str(toml(TASK + "mirror = '~/copies'"))).tasks
    assert task.mirror == str(tmp_path / "copies")


def test_a_fault_of_a_task_file_is_told_by_its_place_alone(toml, tmp_path, complaint):
    pytest.importorskip("lm_eval")
    file = tmp_path / "own.yaml"
    file.write_text("task: [")
    line = complaint("run", "--suite", toml(f"[[tasks]]\ntask = 'harness'\nharness_tasks = ['{file}']\n"))
    assert str(file) in line
    assert "[[" not in line and "{'task'" not in line
