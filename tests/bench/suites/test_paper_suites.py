"""The suites of papers run from end to end, on a mirror with tiny models and data in place of those that they name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bench.__main__ import main
from bench.records.arrays import read_arrays
from bench.records.schema import FinishedRecord
from bench.records.storage.current import finished, read_current
from bench.suites.files import load_suite
from tests.fixtures.mirror import HAN, NLI, WORDS, Mirror

ROWS = {"train": 60, "validation": 20}
GLUE = {
    "cola": (("sentence",), ("unacceptable", "acceptable")),
    "sst2": (("sentence",), ("negative", "positive")),
    "mrpc": (("sentence1", "sentence2"), ("not_equivalent", "equivalent")),
    "qqp": (("question1", "question2"), ("not_duplicate", "duplicate")),
    "mnli": (("premise", "hypothesis"), NLI),
    "qnli": (("question", "sentence"), ("entailment", "not_entailment")),
    "rte": (("sentence1", "sentence2"), ("entailment", "not_entailment")),
}
# As the labels of papluca's model are numbered; those of its data are names.
LANGUAGES = [
    "ja", "nl", "ar", "pl", "de", "it", "pt", "tr", "es", "hi",
    "el", "ur", "bg", "en", "fr", "zh", "ru", "th", "sw", "vi",
]  # fmt: skip
NAMER = "papluca/xlm-roberta-base-language-detection"


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory, tiny_marian: Path, tiny_pairs: Path) -> Path:
    """Every model and data set that the suites of papers name."""
    made = Mirror(tmp_path_factory.mktemp("mirror"))
    base = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 24, "intermediate_size": 24}
    made.model("google-bert/bert-base-uncased", "bert", **base)  # as many heads as the figures of papers are of
    for name, (columns, labels) in GLUE.items():
        parts = ("_matched", "_mismatched") if name == "mnli" else ("",)
        sizes = {"train": 60} | {f"{split}{part}": 20 for part in parts for split in ("validation", "test")}
        unlabelled = [split for split in sizes if split.startswith("test") and name != "mrpc"]
        made.table(f"nyu-mll/glue/{name}", sizes, columns, "label", labels, unlabelled=unlabelled, named=True)
    with_test = {**ROWS, "test": 20}
    made.table("SetFit/mnli_mm", with_test, ("text1", "text2"), "label", (0, 1, 2), unlabelled=["test"])

    news = "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2"
    made.model(news, "bert", ("Negative", "Neutral", "Positive"))
    made.table("hw2942/financial-news-sentiment", {"train": 100}, ("text",), "label", (0, 1, 2), words=HAN)
    made.model("Alireza1044/albert-base-v2-mnli", "albert", NLI, num_hidden_layers=3, num_attention_heads=4)
    made.model("siebert/sentiment-roberta-large-english", "roberta", ("NEGATIVE", "POSITIVE"))
    made.table("SetFit/sst2", with_test, ("text",), "label", (0, 1))
    made.model(NAMER, "xlm-roberta", LANGUAGES)
    made.table("papluca/language-identification", {**with_test, "test": 60}, ("text",), "labels", sorted(LANGUAGES))

    made.model("meta-llama/Llama-2-7b-hf", "llama", hidden_size=64, num_attention_heads=4, max_position_embeddings=512)
    alpaca = ("instruction", "input", "output")
    made.table("yahma/alpaca-cleaned", {"train": 12}, alpaca, "unused", ("",))
    choices = {"choices": ["good film", "bad book"], "label": 0}
    for number, task in enumerate(("arc_easy", "arc_challenge")):
        made.documents(task, [{"question": f"which {WORDS[number]}", **choices}, {"question": "why", **choices}])
    made.documents("piqa", [{"goal": "read", **choices}, {"goal": "see", **choices}])
    made.documents("winogrande", [{"question": "the _ was good", **choices}, {"question": "a _ is bad", **choices}])
    endings = {"endings": ["a", "b", "c", "d"], "label": 2}
    made.documents("hellaswag", [{"ctx": "Reading: a film. it", **endings}, {"ctx": "Seeing: a book. it", **endings}])
    shutil.copytree(tiny_marian, made.folder / "Helsinki-NLP/opus-mt-de-en")
    pairs = [json.loads(line) for line in tiny_pairs.read_text(encoding="utf-8").splitlines()]
    rows = [{"translation": {"de": pair["hu"], "en": pair["en"]}} for pair in pairs]
    (iwslt := made.folder / "bbaaaa/iwslt14-de-en-preprocess").mkdir(parents=True)
    for number, split in enumerate(("train", "validation", "test")):
        some = rows[:80] if split == "train" else rows[80 + 20 * (number - 1) :][:20]
        (iwslt / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    (made.folder / "wikitext").mkdir()
    (made.folder / "wikitext" / "test.txt").write_text(" = A book = \n the film was very good \n", encoding="utf-8")
    return made.folder


@pytest.fixture
def run(place, mirror):
    """Run a suite with these flags on the mirror; its records."""

    def one(suite: str, *flags: str) -> Sequence[FinishedRecord]:
        own = ["--mirror", str(mirror), "--jobs", "1", "--device", "cpu", "--no-latency", "--out", str(place.out)]
        assert main(["run", "--suite", suite, *own, *flags]) == 0
        return list(finished(read_current(place.out)[0]))

    return one


def labels(suite: str) -> set[str]:
    return {spec.label for spec in load_suite(suite).methods}


def published_rows(place) -> list[list[str]]:
    """Cells of the rows below the heading of the leaderboard's published figures."""
    board = (place.out / "leaderboard.md").read_text().partition("## Published and measured")[2]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in board.splitlines() if line.startswith("|")]


@pytest.mark.slow
def test_greedy_gnorm_removes_every_single_head_of_four_checkpoints(run, place):
    records = run("greedy-gnorm")
    units = {"financial-news-sentiment": 4, "glue:mnli": 4, "sst2": 4, "language-identification": 4}
    assert {record.cell.data: record.result.units for record in records} == units
    assert {record.cell.label for record in records} == labels("greedy-gnorm")
    assert len(records) == len(units) * len(labels("greedy-gnorm"))
    for record in records:
        assert record.result.removed == list(range(record.result.units + 1))
        assert record.result.chance < 1 and not record.result.training.model_dump(exclude_none=True)


def test_labels_of_a_checkpoint_are_those_of_the_data_by_name(run, place, mirror):
    """A model whose labels are in another order than the data's is right where the names are the same."""
    (record,) = run("greedy-gnorm", "--tasks", "language_id", "--methods", "none")
    (path,) = (place.out / "records").rglob("*.json")
    outcomes = read_arrays(path)["outcomes"][0, 0]
    lines = (mirror / "papluca/language-identification/test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    model = AutoModelForSequenceClassification.from_pretrained(mirror / NAMER).eval()
    tokenizer = AutoTokenizer.from_pretrained(mirror / NAMER)
    with torch.no_grad():
        answers = [int(model(**tokenizer(row["text"], return_tensors="pt")).logits.argmax()) for row in rows]
    by_name = [model.config.id2label[answer] == row["labels"] for answer, row in zip(answers, rows, strict=True)]
    by_place = [sorted(LANGUAGES)[answer] == row["labels"] for answer, row in zip(answers, rows, strict=True)]
    assert outcomes.tolist() == by_name != by_place
    assert record.result.quality[0][0] == pytest.approx(sum(by_name) / len(rows))


@pytest.mark.slow
def test_dsp_trains_from_the_pretrained_model_for_the_whole_of_fine_tuning(run, place):
    records = {record.cell.label: record for record in run("dsp", "--levels", "0.5")}
    assert records.keys() == labels("dsp")
    whole = records["none"].result.training.steps
    assert whole
    for label, record in records.items():
        if "start=pretrained" in label:
            assert record.result.method_training
            assert {report["steps"] for report in record.result.method_training.reports.values() if report} <= {whole}
        assert record.result.parts == {"mnli_mm": 20}  # the validation rows: the test split has no labels
    half = [row[1] for row in published_rows(place) if row[0] == "72 of 144"]
    assert [name for name in half if "(published)" not in name] == [
        "michel",
        "dsp-pipelined:epochs=1.0,schedule=paper",
        next(label for label in records if label.startswith("voita:")),
        "ste:start=pretrained",
        "dsp-joint:schedule=paper,start=pretrained",
    ]
    assert main(["report", str(place.out)]) == 0
    pages = {path.relative_to(place.out / "report").as_posix() for path in (place.out / "report").rglob("*.html")}
    assert {"published.html", "budgets.html"} <= pages
    figures = {path.name.partition("-mnli")[0] for path in (place.out / "report").rglob("*.svg")}
    assert {"traces", "heads", "published-dsp-1"} <= figures


@pytest.mark.slow
def test_hies_is_run_on_the_tasks_of_glue(run, place):
    records = run("hies", "--seeds", "1", "--methods", "tis,hies", "--levels", "0.3")
    assert {record.cell.data for record in records} == {f"glue:{name}" for name in GLUE}
    at_30 = [row for row in published_rows(place) if row[0] == "30 %"]
    assert [row[1] for row in at_30] == ["HIS (published)", "tis", "HIES (published)", "hies"]
    quality = [
        record.result.quality[0][record.result.removed.index(43)] for record in records if record.cell.label == "hies"
    ]
    assert at_30[-1][2] == f"{100 * sum(quality) / len(GLUE):.2f}"


@pytest.mark.slow
def test_dsp_of_translation_trains_from_the_pretrained_model_too(run):
    records = {record.cell.label: record for record in run("dsp-translation", "--levels", "0.5")}
    assert records.keys() == labels("dsp-translation")
    for label, record in records.items():
        assert record.result.attention == ["encoder"] * 2 + ["decoder", "cross"] * 2
        assert record.result.parts == {(data := "iwslt14-de-en-preprocess"): 20}
        assert f"{data}/chrf" in record.result.metrics[0][0]
        assert record.cell.asked["beams"] == 5
        if "start=pretrained" in label:
            assert record.result.method_training


@pytest.mark.slow
def test_amp_prunes_recovers_and_shows_the_papers_figures_beside(run, place):
    records = run("amp", "--levels", "0.21875")
    assert {record.cell.label for record in records} == labels("amp")
    at_7 = [row[1] for row in published_rows(place) if row[0] == "7 of 32"]
    assert at_7[:3] == ["AMP (published)", "amp", "amp-recovered:batch_size=1"]
    assert "Differences in protocol" in (place.out / "leaderboard.md").read_text()
    assert main(["report", str(place.out)]) == 0
    page = (place.out / "report" / "published.html").read_text(encoding="utf-8")
    assert "Llama-2-7b-hf" in page and "of the task&#39;s own training" in page


@pytest.mark.parametrize("suite", ["greedy-gnorm", "dsp", "dsp-translation", "amp", "hies"])
def test_a_suite_can_be_listed_before_anything_runs(suite, mirror, place, capsys):
    assert main(["list", "cells", "--suite", suite, "--mirror", str(mirror), "--device", "cpu"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= len(labels(suite))
