"""The command line itself: a slip is named in one line, help and lists say what there is, output fits in a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from bench.__main__ import main
from bench.cli import flag_types, listing
from bench.cli.arguments import parse
from bench.records.storage.store import Store
from methods.contract.method import RECOVER
from methods.recovery.recover import How
from tasks.request import TaskSpec
from tests.fixtures.slow import slow_cases

ROOT = Path(__file__).parents[3]


def command(*arguments: str, **settings) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment} | settings
    return subprocess.Popen([sys.executable, "-m", "bench", *arguments], **settings)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("rnu", "VERB: unknown 'rnu': did you mean 'run'?"),
        ("zzz", "available: run, list, prune, check, gguf, leaderboard, report, compare, regress, merge, pack, unpack"),
        ("list", "WHAT is missing; available: methods, tasks, suites, cells"),
        ("list metods", "unknown 'metods': did you mean 'methods'?"),
        ("run --mehtods none", "unknown argument '--mehtods': did you mean --methods?"),
        ("run --seed=3", "unknown argument '--seed=3': did you mean --seeds?"),
        ("leaderboard --fromat csv", "unknown argument '--fromat': did you mean --format?"),
        ("leaderboard --format xml", "--format: unknown 'xml': available: md, csv, html, latex"),
        ("run --device cudda", "--device: unknown 'cudda': did you mean 'cuda'?"),
        ("run surplus", "unknown argument 'surplus'"),
        ("run --recover lstsq", "unknown argument '--recover': it is an option of each method, METHOD:recover=lstsq"),
        ("check obs --recover=scale", "'--recover=scale': it is an option of each method, METHOD:recover=lstsq"),
        ("run --jobs", "--jobs: expected one argument"),
        ("run --jobs 0", "--jobs: expected a whole number, at least 1, not '0'"),
        ("run --jobs -2", "--jobs: expected a whole number, at least 1, not '-2'"),
        ("run --jobs x", "--jobs: expected a whole number, at least 1, not 'x'"),
        ("run --limit 1.5", "--limit: expected a whole number, at least 1, not '1.5'"),
        (f"run --limit {2**63}", f"--limit: expected a smaller number than '{2**63}'"),
        (f"run --limit {'9' * 5000}", "--limit: expected a smaller number, not one of 5000 digits"),
        (
            "check obs --baseline nowhere --on bert",
            "--baseline: cells are compared after all checks, so leave out --only and --on",
        ),
        ("check obs --baseline nowhere", "give the folder of a run, as `headbench run --out` wrote it"),
    ],
)
def test_a_slip_in_verb_or_flag_is_named_with_what_is_nearest(complaint, arguments, said):
    assert complaint(*arguments.split()).endswith(said)


@pytest.mark.parametrize(
    "command",
    [
        *(f"run --{flag}" for flag in ("task", "model", "data", "label", "mirror", "suite", "out", "dtype")),
        *("run --device-map", "report --out", "check none --baseline", "regress --junit", "regress --methods"),
        "prune --method",
    ],
)
def test_an_empty_value_is_no_value(complaint, command):
    assert complaint(*command.split(), "") == f"{command.split()[-1]}: expected a value, not an empty one"


@pytest.mark.parametrize("flag", ["methods", "changed"])
@pytest.mark.parametrize("text", [",", "michel,", "michel,,ae"])
def test_a_comma_without_a_method_does_not_mean_all(complaint, flag, text):
    said = complaint("regress", "--baseline", "results/mini", f"--{flag}", text)
    assert said == f"--{flag} {text!r}: expected METHOD, or METHOD,METHOD, found an empty name"


def test_a_comma_without_a_task_does_not_mean_all(complaint):
    said = complaint("compare", "michel", "ae", "results/mini", "--tasks", "mnli,")
    assert said == "--tasks 'mnli,': expected TASK, or TASK,TASK, found an empty name"


def test_a_link_that_leads_to_itself_is_no_path(complaint, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    said = f"--out: expected a path, and '{loop}' is a symbolic link that leads to itself"
    for command in ("run", "prune", "merge a b", "report"):
        assert complaint(*command.split(), "--out", str(loop)) == said


def test_a_folder_is_no_file_of_verdicts(complaint, tmp_path):
    (tmp_path / "here").mkdir()
    for place, said in (("here", "expected a file to write, and 'here' is a folder"), ("no/x", "no such folder: 'no'")):
        assert complaint("regress", "--baseline", "results/mini", "--junit", place) == f"--junit: {said}"


@pytest.mark.parametrize(
    ("flags", "first"), [("--suite nope", "suite"), ("--device cpu", "device"), ("--harness-tasks a", "harness-tasks")]
)
@pytest.mark.parametrize("what", ["methods", "tasks", "suites"])
def test_flags_that_choose_cells_are_for_a_list_of_cells(complaint, what, flags, first):
    said = complaint("list", what, *flags.split())
    assert said == f"--{first} is for `headbench list cells`: it changes no {what}"


@pytest.mark.parametrize("share", ["1e-300", "0", "0.0000009", "1.1", "nan", "x"])
def test_a_share_of_training_is_a_step_at_least(complaint, share):
    said = f"--training: expected a share from 0.000001 (less is not one step) to 1, not {share!r}"
    assert complaint("run", "--training", share) == said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--methods", "micheel"], "unknown method 'micheel': did you mean 'michel'?"),
        (["--methods", "michel:layer_nrm=true"], "method michel has no option 'layer_nrm'; did you mean layer_norm?"),
        (["--methods", "michel:layer_norm=7"], "method michel: option layer_norm=7: expected one of auto, true, false"),
        (["--methods", "random:draws=0"], "method random: option draws=0: expected a whole number, at least 1"),
        (["--methods", "michel:"], "method michel: option '': expected OPTION=VALUE"),
        (["--methods", "none,random:recompute=2"], "method random: a greedy schedule needs one draw, not 10: use"),
        (
            ["--methods", "amp:recompute=2"],
            "method amp: a greedy schedule removes heads only: use parts=heads, or",
        ),
        (["--methods", "path:signed=false"], "method path: signed=false goes with along=layer, all or random: the"),
        (["--methods", "dsp-pipelined:start=pretrained"], "method dsp-pipelined: start=pretrained trains the weights"),
        (["--methods", "michel:layer_norm"], "method michel: option 'layer_norm': expected OPTION=VALUE"),
        (["--methods", "all:draws=2"], "all takes no options: give them to a method by name"),
        (["--methods", "all,draws=2"], "all takes no options: give them to a method by name"),
        (["--methods", "michel:recompute=1,recompute=2"], "method michel: option 'recompute' is given twice"),
        (
            ["--methods", "michel,,none"],
            "methods 'michel,,none': expected METHOD,METHOD:OPTION=VALUE or all, found an empty name",
        ),
        (["--methods", ""], "expected METHOD,METHOD:OPTION=VALUE or all, found an empty name"),
        (["--tasks", "clasification"], "unknown task 'clasification': did you mean 'classification'?"),
        (["--tasks", ""], "unknown task '': available: classification"),
        (["--task", "clasification"], "unknown task 'clasification': did you mean 'classification'?"),
        (["--task", "classification", "--tasks", "mnli"], "unknown task of suite own-classification 'mnli'"),
        (["--suite", "min"], "unknown suite 'min': did you mean 'mini'?; your own is a path that ends in .toml"),
        (["--data", "x.jsonl"], "--data is for a task of your own: add --task NAME"),
        (["--finetune"], "--finetune is for a task of your own: add --task NAME"),
        (
            ["--task", "classification", "--data", "x.jsonl", "--finetune"],
            "--finetune is for a model of your own: add --model (in a suite file: model)",
        ),
        (["--task", "harness", "--finetune"], "harness: --finetune is not for language models"),
        (["--task", "classification", "--label", "y"], "columns for the text or the label need data"),
    ],
)
def test_a_slip_in_a_name_is_named_with_what_is_nearest(complaint, flags, said):
    assert said in complaint("run", *flags)


def test_a_mirror_that_is_not_there_is_named_with_all_that_may_have_named_it(complaint, monkeypatch):
    monkeypatch.setenv("HEADBENCH_MIRROR", "nowhere")
    said = complaint("run", "--task", "classification", "--model", "org/model")
    assert said == "mirror nowhere (--mirror or HEADBENCH_MIRROR): no such folder"
    own = "run", "--task", "classification", "--model", "org/model", "--mirror", "elsewhere"
    assert complaint(*own) == "--mirror elsewhere: no such folder"


@pytest.mark.parametrize("level", ["1.5", "x", "-0.1", "", "nan", "inf", "150%", "%", "0.5,", "all,0.5"])
def test_a_level_that_is_no_share_is_refused(complaint, level):
    said = "expected a share removed from 0 to 1, or a percentage such as 50%, or all"
    assert said in complaint("run", f"--levels={level}")


@pytest.mark.parametrize("seeds", ["x", "-1", "0", "1,1", "", ",", "1.5", "0,-1", "4294967296,", "1001", "1e3"])
def test_seeds_that_are_none_are_refused(complaint, seeds):
    assert f"seeds {seeds!r}: expected a number of seeds" in complaint("run", f"--seeds={seeds}")


def test_a_gpu_that_is_not_there_is_not_used(complaint, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    said = complaint("run", "--device", "cuda")
    assert said == "--device cuda: no CUDA device is available here; use --device cpu"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a slip of ours")

    monkeypatch.setattr(listing, "suites", broken)
    with pytest.raises(ZeroDivisionError, match="a slip of ours"):
        main(["list", "suites"])


def test_a_leaderboard_of_nothing_says_what_it_looked_for(complaint, tmp_path):
    assert complaint("leaderboard", tmp_path / "nowhere").startswith(f"{tmp_path}/nowhere: no records there")


def test_without_a_verb_the_help_is_shown(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: headbench")


def test_every_field_of_a_request_is_a_flag_that_help_explains(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in TaskSpec.model_fields.items():
        assert f"--{name.replace('_', '-')} " in shown and field.description in shown


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("run", "always from the training split) (default: the suite's; held-out where it says nothing)"),
        ("prune", "always from the training split) (default: held-out)"),
        ("regress", "points of quality, averaged over the shares removed, that may be lost (default: 0.5)"),
    ],
)
def test_help_says_what_a_default_is_and_what_a_number_counts(capsys, verb, said):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("flags", ["DIR --level 0.5", "--level 0.5 DIR"])
def test_a_folder_may_come_before_or_after_a_flag(complaint, flags):
    assert parse(["compare", "a", "b", *flags.split()]).folder == Path("DIR")
    assert complaint("compare", "a", "b", "--level", "0.5", "") == "folder: expected a value, not an empty one"


def test_tasks_are_named_to_compare_as_to_run():
    for flag in ("--tasks", "--task"):
        assert parse(["compare", "a", "b", flag, "mnli"]).tasks == "mnli"


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "--help", "--version", "list --help", "leaderboard", "compare a b", "regress --baseline .", "rnu"),
        *slow_cases("report"),
    ],
)
def test_results_are_read_without_loading_what_made_them(tmp_path, arguments):
    code = (
        "import sys\nfrom bench.__main__ import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', sorted({'torch', 'transformers', 'methods', 'tasks.contract'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", code, *arguments.split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def test_prune_takes_every_way_to_recover_weights():
    """The parser lists them itself, as it must not import the methods."""
    ways = set(get_args(RECOVER.type))
    assert ways == {"none", *get_args(How)}
    for way in ways - {"none"}:
        own = ("--method", "michel", "--keep", "1", "--out", "small")
        assert parse(["prune", *own, "--recover", way]).recover == way
    with pytest.raises(SystemExit):
        parse(["prune", *own, "--recover", "none"])


@pytest.mark.parametrize("verb", ["run", "list", "check", "leaderboard"])
def test_help_says_something_of_every_flag(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    entries = capsys.readouterr().out.partition("options:")[2].split("\n  -")[1:]
    assert len(entries) > 1
    for entry in entries:
        first, _, rest = entry.partition("\n")
        assert "  " in first.strip() or rest.strip(), f"nothing is said of -{first}"
        assert "{suite}" not in entry


def test_lists_say_what_there_is_to_choose_from(capsys):
    assert main(["list", "methods"]) == 0
    methods = capsys.readouterr().out
    assert "short for amp:parts=heads\n" in methods and "    allocation=layer  [global|layer]" in methods
    assert "short for gnorm:inverse=true,recompute=1" in methods
    assert "obs-compensated (joint, training-free; Kurtic" in methods and "\nrandom (scorer, control)\n" in methods
    assert "michel (scorer" in methods and "layer_norm=auto" in methods and "every scorer also takes" in methods
    assert main(["list", "tasks"]) == 0
    tasks = capsys.readouterr().out
    assert "columns: --text premise,hypothesis --label label" in tasks
    assert "classes: entailment, neutral, contradiction" in tasks
    assert tasks.count("built in: ") >= 3
    assert main(["list", "suites"]) == 0
    suites = capsys.readouterr().out
    assert "mini: classification, mnli, language_id" in suites
    assert "hies: 6 x classification, mnli; 7 methods" in suites


def test_the_cells_of_a_suite_are_listed_with_their_state(place, capsys):
    own = ["--task", "classification", "--model", str(place.model), "--data", str(place.data)]
    assert main(["list", "cells", *own, "--methods", "none,michel", "--out", str(place.out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"missing"}
    assert len({line.split()[1] for line in lines}) == len(lines) == 6


def test_a_run_announces_the_sizes_of_ones_own_data_and_what_was_dropped(place, tmp_path, capsys):
    place.data = tmp_path / "own"
    place.data.mkdir()
    for name, size in (("train-0", 40), ("train-1", 40), ("dev", 10), ("test", 20), ("devices", 5)):
        rows = [{"text": f"{name} film {n}", "label": ("negative", "-1", "positive", None)[n % 4]} for n in range(size)]
        (place.data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert place.run("--methods", "none", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "  classification: own, tiny-bert; 40 + 5 + 10 examples (train + validation + test); "
        "train is train-0.jsonl + train-1.jsonl; validation is dev.jsonl; test is test.jsonl; "
        "not read, as the name is of no split: devices.jsonl; 27 rows without a label dropped; "
        "28 rows labelled -1, which means no label (remaining: negative, positive), dropped"
    )
    assert not place.out.exists()


def test_texts_of_ones_own_are_announced_too(place, tiny_texts, tiny_language_model, capsys):
    own = ["--task", "harness", "--model", str(tiny_language_model), "--data", str(tiny_texts), "--device", "cpu"]
    assert main(["run", *own, "--methods", "none", "--seeds", "1", "--dry-run", "--out", str(place.out)]) == 0
    announced = capsys.readouterr().out.splitlines()[1]
    assert announced.startswith("  harness: tiny, tiny-llama; 37 + 3 + 12 examples (train + validation + test); ")
    assert announced.endswith("; train is train.txt; test is test.txt; no validation split: a tenth of train is used")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_fault():
    reader, writer = os.pipe()
    os.close(reader)
    with command("list", "methods", stdout=writer) as process:
        os.close(writer)
        errors = process.communicate()[1]
    assert (process.returncode, errors) == (141, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_output_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("w") as full, command("list", "suites", stdout=full) as process:
        errors = process.communicate()[1]
    assert process.returncode == 2
    assert errors.count("\n") == 1 and "No space left on device" in errors


def test_a_leaderboard_is_printed_where_it_cannot_be_written(tmp_path, make_record, monkeypatch, capsys):
    Store(tmp_path).write("t/m/seed0", make_record(), {"outcomes": np.zeros((1, 3, 100), dtype=bool)})

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bench.report.leaderboard_files.write_whole", refuse)
    assert main(["leaderboard", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "| method" in printed.out and printed.err == f"headbench: not written to {tmp_path}: Permission denied\n"


def test_a_path_of_ones_own_home_is_meant_also_where_no_shell_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert flag_types.path("~/run") == tmp_path / "run" and flag_types.path("a~b") == Path("a~b")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["leaderboard", "~nobody-of-this-name/x"], "begins with a user that is not known here"),
        (["run", "--task", "classification", "--data", "~nobody-of-this-name/x.csv"], "no such file or folder"),
        (
            ["prune", "--task", "mnli", "--method", "michel,", "--keep", "0.5", "--out", "o"],
            "--method michel,: expected",
        ),
    ],
)
def test_a_path_or_method_that_nobody_can_mean_is_told_in_one_line(complaint, flags, told):
    assert told in complaint(*flags)
