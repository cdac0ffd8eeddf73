"""Language models by the command line: run, records, and smaller checkpoints that lm-eval itself scores alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from lm_eval.evaluator import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from safetensors.torch import load_file
from transformers import AutoTokenizer

from bench.__main__ import main
from bench.records.arrays import read_outcomes
from bench.records.storage.current import finished, read_current
from methods.heads import load_pruned
from tasks.harness import loading
from tests.fixtures.slow import slow_cases

TASKS = ("headbench_copy", "headbench_own_texts")
ONE = ("--seeds", "1", "--jobs", "1", "--no-latency")


@pytest.fixture
def own(place, tiny_language_model, tiny_texts) -> list[str]:
    """Flags of a language model of one's own, its texts and two tasks."""
    flags = ["--task", "harness", "--model", str(tiny_language_model), "--data", str(tiny_texts), "--device", "cpu"]
    return [*flags, "--harness-tasks", ",".join(TASKS)]


@pytest.mark.parametrize(
    "methods",
    [
        "none,random:draws=2,michel,greedy-gnorm:recompute=8,amp,ste",
        *slow_cases("gnorm,ae,tis,leave-one-out"),
    ],
)
def test_a_record_holds_each_document_and_each_metric(own, place, capsys, methods):
    flags = [*ONE, "--methods", methods, "--levels", "0.5", "--training", "0.01"]
    assert main(["run", *own, *flags, "--out", str(place.out)]) == 0
    records, _ = read_current(place.out)
    assert len(records) == len(methods.split(","))
    for path, record in records.items():
        result = record.result
        outcomes, arrays = read_outcomes(path), load_file(path.with_suffix(".safetensors"))
        draws, levels, questions = outcomes.shape
        assert result.parts == {TASKS[0]: questions} and levels == 3
        assert arrays[f"nats.{TASKS[1]}"].shape == (draws, levels, 12)
        for draw in range(draws):
            for level in range(levels):
                metrics = result.metrics[draw][level]
                share = outcomes[draw, level].mean()
                assert metrics[f"{TASKS[0]}/acc"] == result.quality[draw][level] == pytest.approx(share)
                bits = arrays[f"nats.{TASKS[1]}"][draw, level].sum() / arrays[f"bytes.{TASKS[1]}"].sum()
                assert metrics[f"{TASKS[1]}/byte_perplexity"] == pytest.approx(bits.exp().item(), rel=1e-5)
    board = (place.out / "leaderboard.md").read_text()
    assert "8 of 16 units removed" in board and "headbench own texts, word perplexity" in board


@pytest.mark.parametrize(("method", "keep", "plain"), [("amp", "0.5", True), *slow_cases(("michel", "7", False))])
def test_lm_eval_scores_a_smaller_checkpoint_as_we_do(own, place, tiny_texts, capsys, method, keep, plain):
    """By its own loading where the shape is uniform, through ours otherwise."""
    out = place.folder / "small"
    assert main(["prune", *own, "--method", method, "--keep", keep, "--out", str(out)]) == 0
    card = (out / "README.md").read_text()
    assert "\ntexts of tiny to prune with: 37 + 3 + 12 examples" in card  # which are not those of the task
    assert ("`from_pretrained` of transformers loads it as well" in card) == plain
    theirs = by_lm_eval(out if plain else load_pruned(out), out, tiny_texts)
    for ours, name, metric in ((TASKS[0], TASKS[0], "acc"), (TASKS[1], "own", "word_perplexity")):
        (row,) = [line for line in card.splitlines() if line.startswith(f"| {ours}/{metric} ")]
        assert row.split("|")[3].strip() == f"{theirs[name][f'{metric},none']:.4g}"


def by_lm_eval(model, folder: Path, texts: Path):
    """Results of ``lm_eval --model hf`` on a folder, or on a model that is loaded already."""
    tasks = folder.parent / "tasks"
    tasks.mkdir()
    own = {"include": str(loading.FOLDER / f"{TASKS[1]}.yaml"), "task": "own"}
    own |= {"dataset_kwargs": {"data": str(texts), "columns": ["text"], "mirror": "", "limit": 0}}
    (tasks / "own.yaml").write_text(json.dumps(own))  # which is YAML too
    manager = TaskManager(include_path=[tasks, loading.FOLDER], include_defaults=False)
    settings = {"tasks": [TASKS[0], "own"], "task_manager": manager, "bootstrap_iters": 0}
    if isinstance(model, Path):
        found = simple_evaluate("hf", model_args=f"pretrained={model}", batch_size=64, device="cpu", **settings)
    else:
        found = simple_evaluate(HFLM(model, tokenizer=AutoTokenizer.from_pretrained(folder), batch_size=64), **settings)
    return found["results"]


@pytest.mark.slow
def test_the_same_seed_makes_the_same_record(own, place):
    flags = [*ONE, "--methods", "magnitude", "--levels", "0.5"]
    for out in ("first", "second"):
        assert main(["run", *own, *flags, "--out", str(place.folder / out)]) == 0
    first, second = (place.results(place.folder / out) for out in ("first", "second"))
    assert first == second and len(first) == 1


@pytest.mark.slow
def test_units_may_be_query_heads(own, place, capsys):
    """8 of them, one in each group of a layer; kept apart from the records by group, in one folder of results."""
    flags = [*ONE, "--methods", "random:draws=1", "--levels", "0.5", "--out", str(place.out)]
    assert main(["run", *own, *flags]) == main(["run", *own, "--unit", "query", *flags]) == 0
    records = {record.cell.asked["unit"]: record for record in finished(read_current(place.out)[0])}
    group, query = records["group"], records["query"]
    assert group.result.removed == [0, 8, 16] and query.result.removed == [0, 4, 8]
    assert group.key != query.key and query.cell.model == "tiny-llama by query head"
    assert query.result.gap <= 1e-5
    smaller = place.folder / "small"
    unit = ["--unit", "query", "--method", "random", "--keep", "4"]
    assert main(["prune", *own, *unit, "--out", str(smaller)]) == 0
    layers = [layer.self_attn for layer in load_pruned(smaller).model.layers]
    assert sum(layer.q_proj.out_features for layer in layers) == 4 * 4 * 16  # heads of 16 dimensions in 4 groups
    assert {layer.k_proj.out_features for layer in layers} <= {0, 4 * 16}  # every group is there, or none


def test_a_suite_file_with_an_unknown_unit_is_refused(complaint, tmp_path):
    suite = tmp_path / "own.toml"
    suite.write_text('[[tasks]]\ntask = "harness"\nunit = "layer"\n')
    assert complaint("run", "--suite", str(suite)).endswith("unit = 'layer': expected one of group, query")


def test_a_text_longer_than_the_context_is_counted(place, tiny_language_model, tiny_texts, capsys):
    """It is scored in windows, and the leaderboard says how many there were."""
    folder = place.folder / "long"
    shutil.copytree(tiny_texts, folder)
    texts = (folder / "test.txt").read_text(encoding="utf-8")
    (folder / "test.txt").write_text(texts + "\n\n" + " ".join(texts.split() * 9), encoding="utf-8")
    own = ["--task", "harness", "--model", str(tiny_language_model), "--data", str(folder), "--device", "cpu"]
    flags = [*ONE, "--methods", "none", "--out", str(place.out)]
    assert main(["run", *own, *flags]) == 0
    (record,) = place.records().values()
    assert record["result"]["metrics"][0][0]["headbench_own_texts/documents_cut"] == 1
    assert "own_texts: 1 documents are longer than the model's context" in (place.out / "leaderboard.md").read_text()
