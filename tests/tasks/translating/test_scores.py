"""BLEU and chrF are those of sacrebleu's own command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from bench.analysis.stats.corpus import bleu
from tasks.translating.scores import outcomes
from tests.fixtures.translation import dataset


@pytest.fixture(scope="module")
def examples():
    return dataset().test[:40]


@pytest.fixture(scope="module")
def references(examples):
    return [example.texts[1] for example in examples]


@pytest.mark.parametrize(
    "translate",
    [
        lambda references: [*references[:25], *references[26:], references[25]],
        lambda references: [text.replace(".", " ,")[:-3] for text in references],
        lambda references: references,
        lambda references: ["ez", *[""] * (len(references) - 1)],
    ],
    ids=["some wrong", "all a little wrong", "all right", "hardly any"],
)
def test_as_the_command_line_says(tmp_path, translate, examples, references):
    translations = translate(references)
    for name, texts in (("translations", translations), ("references", references)):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    call = [sys.executable, "-m", "sacrebleu", "references", "-i", "translations", "-m", "bleu", "chrf", "-w", "10"]
    said = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    expected = {each["name"].lower().rstrip("2"): each for each in json.loads(said)}
    found = outcomes("data", translations, examples, {})
    for metric in ("bleu", "chrf"):
        assert 100 * found.metrics[f"data/{metric}"] == pytest.approx(expected[metric]["score"], abs=1e-8)
        assert found.signatures[metric] == expected[metric]["signature"]
    assert found.quality == found.metrics["data/bleu"]
    assert found.correct.tolist() == [one == other for one, other in zip(translations, references, strict=True)]


def test_statistics_of_some_sentences_give_the_score_of_these_sentences(examples, references):
    translations = [*references[1:], references[0]]
    statistics = outcomes("data", translations, examples, {}).statistics["bleu"]
    assert statistics.dtype == torch.int32
    for some in (slice(0, 40), slice(3, 9), slice(5, 6)):
        expected = outcomes("data", translations[some], examples[some], {}).quality
        assert float(bleu(statistics[some].sum(0).numpy())) == pytest.approx(expected, abs=1e-12)
