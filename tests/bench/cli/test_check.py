"""The verb ``check``: what it prints, how it ends, and methods of installed packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from methods.checks import CHECKS, TINY_MODELS

OF_SCORERS = [each.name for each in CHECKS if "scorer" in each.shapes]

ROOT = Path(__file__).parents[3]
METHODS = '''
import torch

from methods import View, scorer


@scorer("last-first", source="one's own")
def last_first(view: View) -> torch.Tensor:
    """Remove the last head first."""
    return -torch.arange(len(view.heads)).double()


@scorer("leaves-hook", source="one's own")
def leaves_hook(view: View) -> torch.Tensor:
    """Leave a hook behind."""
    view.model.get_submodule(view.heads.sites[0].output).register_forward_hook(lambda *_: None)
    return last_first(view)


@scorer("stumbles", source="one's own")
def stumbles(view: View) -> torch.Tensor:
    """Raise an error."""
    return {}["no such key"]
'''


@pytest.fixture
def check(capsys):
    """Give the verb these arguments; its exit code and the lines that it prints."""

    def run(*arguments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main(["check", *arguments])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_a_good_method_passes_with_a_line_a_check(check):
    code, lines = check("magnitude", "--on", "bert,llama-left")
    assert code == 0
    assert lines[0] == "On tiny random models: bert (an encoder), llama-left (padding on the left)."
    assert lines[1] == "magnitude"
    assert [re.match(r"  (ok|skipped) +([\w-]+)( \(.+\))?$", line)[2] for line in lines[2:-1]] == OF_SCORERS
    assert "  ok       padding-and-batching-do-not-matter" in lines
    assert re.fullmatch(r"\d+ ok(, 1 skipped)? in [\d.]+ s", lines[-1])  # without a GPU, works-on-cuda is skipped


def test_a_fault_is_told_with_the_rule_the_place_and_how_to_see_it_again(check, plugin, capsys):
    plugin(METHODS)
    code, lines = check("leaves-hook,last-first", "--on", "bert,albert")
    assert code == 1
    place = lines.index("  FAILED   no-side-effects")
    rule, *found = [line.strip() for line in lines[place + 1 : place + 6]]
    assert rule.startswith("must hold: Weights, gradients, modes, hooks")
    assert found[0].startswith(
        "bert: not left as found (sdpa attention, the model is frozen): number of forward hooks of bert."
    )
    assert found[1] == "again: headbench check leaves-hook --only no-side-effects --on bert"
    assert found[2].startswith("albert: not left as found") and found[3].endswith("--only no-side-effects --on albert")
    assert re.match(r"\d+ ok, \d+ FAILED", lines[-1])
    assert not any("FAILED" in line for line in lines[lines.index("last-first") : -1])
    again = check(*found[1].split()[3:])
    assert again[0] == 1 and found[0] in [line.strip() for line in again[1]]


def test_an_error_is_placed_and_alone_shown_with_its_traceback(check, plugin, capsys):
    plugin(METHODS)
    code, lines = check("stumbles", "--only", "works-in-bfloat16")
    assert code == 1
    said = r" +bert, albert, llama, llama-query, llama-left: KeyError: 'no such key' \(.*third_party_\d+\.py:23\)"
    assert re.fullmatch(said, lines[4])
    assert main(["check", "stumbles", "--only", "works-in-bfloat16", "--on", "bert"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_options_are_taken_and_shown(check):
    code, lines = check("gnorm:variant=batch", "--on", "bert", "--only", "padding-and-batching-do-not-matter")
    assert code == 0
    assert lines[1:3] == [
        "gnorm:variant=batch",
        "  skipped  padding-and-batching-do-not-matter (depends on the batch by definition)",
    ]


def test_names_of_one_function_are_told_apart(check):
    _, lines = check("michel,greedy-michel", "--on", "bert")
    assert "greedy-michel (checks of its function: see above)" in lines
    below = lines[lines.index("greedy-michel (checks of its function: see above)") + 1 : -1]
    assert len(below) == sum(not each.ignores_schedule and "scorer" in each.shapes for each in CHECKS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("micheel", "unknown method 'micheel': did you mean 'michel'?"),
        ("michel:layer_nrm=true", "method michel has no option 'layer_nrm'; did you mean layer_norm?"),
        ("michel --only no-side-efects", "unknown check 'no-side-efects': did you mean 'no-side-effects'?"),
        (
            "michel --only trained-models-are-ready",
            "no check to run: trained-models-are-ready does not apply to michel",
        ),
        ("michel --on brt", "unknown tiny model 'brt': did you mean 'bert'?"),
        ("", "the following arguments are required: NAME[:OPTION=VALUE]|A,B|all"),
    ],
)
def test_a_slip_is_named_with_what_is_nearest(complaint, arguments, said):
    assert complaint("check", *arguments.split()) == said


@pytest.mark.slow
def test_a_package_that_pip_installs_is_checked_and_run(place, tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "my_method.py").write_text(METHODS)
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "my-method"\nversion = "1.0"\n'
        '[project.entry-points."headbench.methods"]\nmine = "my_method"\n'
        '[tool.setuptools]\npy-modules = ["my_method"]\n'
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    shutil.rmtree(source)
    place.path.append(site)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, site]))}
    checked = subprocess.run(
        [sys.executable, "-m", "bench", "check", "last-first"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
    assert len(checked.stdout.splitlines()) == len(OF_SCORERS) + 4  # no records are there to compare with
    assert all(model.name in checked.stdout for model in TINY_MODELS)
    process = place.start("--methods", "last-first,none")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert place.records()["last-first/seed0"]["result"]["orders"] == [[7, 6, 5, 4, 3, 2, 1, 0]]
