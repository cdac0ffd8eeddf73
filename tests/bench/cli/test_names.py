"""Names of files that are not UTF-8 are refused where they would be written down, and work elsewhere."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.storage.store import Store

STRANGE = os.fsdecode(b"caf\xe9")  # "café" in Latin-1
OWN = ("--task", "classification", "--data", "tiny.jsonl", "--model", "tiny-bert")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", *OWN, "--data", f"{STRANGE}.jsonl"),
        ("run", *OWN, "--model", f"./{STRANGE}"),
        ("run", *OWN, "--out", STRANGE),
        ("list", "cells", *OWN, "--data", f"{STRANGE}.jsonl"),
        ("prune", *OWN, "--method", "random", "--keep", "1", "--out", STRANGE),
        ("prune", *OWN, "--method", "random", "--keep", "1", "--out", "small", "--data", f"{STRANGE}.jsonl"),
    ],
)
def test_a_name_that_would_be_written_down_is_refused(complaint, tmp_path, tiny_data, tiny_model, arguments):
    shutil.copy(tiny_data, tmp_path / "tiny.jsonl")
    shutil.copy(tiny_data, tmp_path / f"{STRANGE}.jsonl")
    for name in ("tiny-bert", STRANGE):
        shutil.copytree(tiny_model, tmp_path / name)
    said = complaint(*arguments)
    flag, name = next((flag, name) for flag, name in pairwise(arguments) if STRANGE in name)
    assert said.startswith(f"{flag}: expected a name in UTF-8, not '") and r"caf\udce9" in said, said
    assert name.endswith(".jsonl") == (".jsonl'" in said)


@pytest.mark.parametrize("name", ["a\x01b", "two\nlines", "a\x1b[31mb"])
def test_a_name_with_control_characters_is_refused(complaint, tmp_path, tiny_data, name):
    """No figure can hold most of them, and a terminal obeys some."""
    shutil.copy(tiny_data, tmp_path / f"{name}.jsonl")
    said = complaint("run", *OWN, "--data", f"{name}.jsonl")
    assert said == f"--data: expected a name without control characters, not {f'{name}.jsonl'!r}: rename it"


def test_a_checkpoint_is_not_saved_below_a_folder_of_such_a_name(complaint, tmp_path):
    (tmp_path / STRANGE).mkdir()
    (tmp_path / "link").symlink_to(STRANGE)
    said = complaint("prune", *OWN, "--method", "random", "--keep", "1", "--out", "link/small")
    assert said == rf"--out: expected a name in UTF-8, not '{tmp_path}/caf\udce9/small': rename it"


def test_verbs_that_read_records_take_such_names(tmp_path, make_record, capfd):
    folder = tmp_path / STRANGE
    for method in ("one", "other"):
        for seed in range(2):
            record = make_record(label=method, seed=seed)
            Store(folder).write(f"t/{method}/seed{seed}", record, {"outcomes": np.ones((1, 3, 100), bool)})
    for verb in (
        ["leaderboard", folder],
        ["compare", "one", "other", folder],
        ["regress", "--baseline", folder, folder, "--junit", folder / f"{STRANGE}.xml"],
    ):
        assert main(list(map(str, verb))) == 0, capfd.readouterr().err
    assert (folder / f"{STRANGE}.xml").exists() and (folder / "leaderboard.md").exists()
