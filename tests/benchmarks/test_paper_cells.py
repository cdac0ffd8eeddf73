"""One removal step of each paper's suite at the real size of its model, with random weights, in a process each.

``pytest tests/benchmarks/test_paper_cells.py -s`` prints a row for each, as in docs/papers.md. It needs 6 GB of memory
and some minutes for each. Llama-2-7B is planned whole, and a cut of two of its layers is run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MarianConfig, MarianMTModel

from bench.run.estimates.shapes import Shape
from methods.heads import HeadMap
from tasks.builtin import renderings
from tests.fixtures import translation
from tests.fixtures.checkpoints import CONFIGS
from tests.fixtures.mirror import HAN, KINDS, NLI, WORDS, Kind, Mirror, write_rows

# Any four fill the 128 tokens that a classifier is fine-tuned on; splits must not share texts.
LONG = [" ".join(3 * (*WORDS[place:], *WORDS[:place])) for place in range(len(WORDS))]
ROWS = {"train": 40, "validation": 4, "test": 4}
LANGUAGES = [f"language {number}" for number in range(20)]
LLAMA = "meta-llama/Llama-2-7b-hf"
MARIAN = "Helsinki-NLP/opus-mt-de-en"
LAYERS = 2
MODELS = KINDS | {"marian": Kind(translation.tokenizer, MarianConfig, MarianMTModel)}


@dataclass(frozen=True)
class Case:
    """A cell: of the table with this number in ``suite``, with so many examples to score on."""

    suite: str
    table: int
    method: str
    model: str
    kind: str
    labels: tuple[str, ...]
    data: Callable[[Mirror], None]
    calibration: int = 8


def _news(mirror: Mirror) -> None:
    mirror.table(
        "hw2942/financial-news-sentiment", {"train": 40}, ("text",), "label", (0, 1, 2), words=[" ".join(HAN * 4)]
    )


def _mnli(mirror: Mirror) -> None:
    sizes = {"train": 40, "validation_matched": 2, "validation_mismatched": 2}
    mirror.table("nyu-mll/glue/mnli", sizes, ("premise", "hypothesis"), "label", NLI, named=True, words=LONG)


def _reviews(mirror: Mirror) -> None:
    mirror.table("SetFit/sst2", ROWS, ("text",), "label", (0, 1), words=LONG)


def _languages(mirror: Mirror) -> None:
    sizes = {**ROWS, "train": 60}
    mirror.table("papluca/language-identification", sizes, ("text",), "labels", LANGUAGES, words=LONG)


def _mismatched(mirror: Mirror) -> None:
    mirror.table("SetFit/mnli_mm", {"train": 40, "validation": 4}, ("text1", "text2"), "label", (0, 1, 2), words=LONG)


def _glue(mirror: Mirror) -> None:
    sizes, labels = {"train": 40, "validation": 4}, ("negative", "positive")
    mirror.table("nyu-mll/glue/sst2", sizes, ("sentence",), "label", labels, named=True, words=LONG)


def _talks(mirror: Mirror) -> None:
    """Pairs of the built-in translation task, the longest first, in the columns of IWSLT14."""
    pairs = sorted((each.texts for each in renderings.dataset().train), key=lambda texts: -sum(map(len, texts)))
    rows = [{"translation": {"de": source, "en": target}} for source, target in pairs]
    folder = mirror.folder / "bbaaaa/iwslt14-de-en-preprocess"
    folder.mkdir(parents=True)
    begin = 0
    for split, size in ROWS.items():
        write_rows(folder / f"{split}.jsonl", rows[begin : begin + size])
        begin += size


def _alpaca(mirror: Mirror) -> None:
    mirror.table("yahma/alpaca-cleaned", {"train": 8}, ("instruction", "input", "output"), "unused", ("",))
    choices = {"choices": ["good film", "bad book"], "label": 0}
    for task in ("arc_easy", "arc_challenge"):
        mirror.documents(task, [{"question": "which", **choices}])
    mirror.documents("piqa", [{"goal": "read", **choices}])
    mirror.documents("winogrande", [{"question": "the _ was good", **choices}])
    mirror.documents("hellaswag", [{"ctx": "Reading: a film. it", "endings": ["a", "b", "c", "d"], "label": 2}])
    (mirror.folder / "wikitext").mkdir()
    (mirror.folder / "wikitext" / "test.txt").write_text(" = A book = \n the film was very good \n", encoding="utf-8")


NEWS, BASE = "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2", "google-bert/bert-base-uncased"
CASES = [  # the first step of greedy-gnorm is that of gnorm
    Case("greedy-gnorm", 0, "gnorm", NEWS, "bert", ("Negative", "Neutral", "Positive"), _news),
    Case("greedy-gnorm", 1, "gnorm", "Alireza1044/albert-base-v2-mnli", "albert", NLI, _mnli),
    Case("greedy-gnorm", 2, "gnorm", "siebert/sentiment-roberta-large-english", "roberta",
         ("NEGATIVE", "POSITIVE"), _reviews),
    Case("greedy-gnorm", 3, "gnorm", "papluca/xlm-roberta-base-language-detection", "xlm-roberta",
         tuple(LANGUAGES), _languages),
    Case("dsp", 0, "dsp-joint:start=pretrained,schedule=paper", BASE, "bert", (), _mismatched),
    Case("dsp-translation", 0, "dsp-joint:start=pretrained,schedule=paper,start_temperature=0.1,learning_rate=0.2",
         MARIAN, "marian", (), _talks),
    Case("hies", 1, "hies", BASE, "bert", (), _glue),
    Case("amp", 0, "amp", LLAMA, "llama", (), _alpaca, calibration=4),
]  # fmt: skip


def put_model(case: Case, folder: Path) -> None:
    """The model of ``case`` at its real size, with the random weights of its architecture; of Llama, two layers."""
    kind, settings = MODELS[case.kind], CONFIGS[case.model].to_dict()
    tokenizer = kind.tokenizer()
    settings["pad_token_id"] = tokenizer.pad_token_id
    if case.kind == "llama":
        settings["num_hidden_layers"] = LAYERS
        tokenizer.add_tokens([f"<{number}>" for number in range(settings["vocab_size"] - len(tokenizer))])
    if case.labels:
        names = dict(enumerate(case.labels))
        settings |= {"id2label": names, "label2id": {label: number for number, label in names.items()}}
    torch.manual_seed(0)
    model = kind.model(kind.config(**settings))
    if case.kind == "llama":
        model = model.to(torch.bfloat16)
    (model if case.labels or case.kind in ("llama", "marian") else model.base_model).save_pretrained(
        folder / case.model
    )
    tokenizer.save_pretrained(folder / case.model)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.suite}-{case.kind}")
def test_a_step_takes_what_was_planned(case, capsys):
    with tempfile.TemporaryDirectory() as folder:  # of gigabytes, which pytest would keep
        put_model(case, Path(folder))
        case.data(Mirror(Path(folder)))
        arguments = [case.suite, str(case.table), case.method, folder, str(case.calibration)]
        command = [sys.executable, "-m", "tests.benchmarks.paper_cell", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    memory = [f"{found[name]:,.0f}" for name in ("planned memory", "memory", "libraries")]
    counts = [f"{number:,}" for number in found["parameters"][:2]]
    cells = [case.suite, case.model.partition("/")[2], *counts, found["batches"], *memory]
    with capsys.disabled():
        print(f"\n| {' | '.join(cells)} | {found['passes']}, gap {found['gap']:.1e}, {found['seconds']:.0f} s")
    whole, without, *_ = found["parameters"]
    assert found["planned parameters"] == whole > without
    assert found["trained"] or found["passes"] == found["planned passes"]
    assert 2 / 3 < found["memory"] / found["planned memory"] < 4 / 3


def test_llama_2_7b_is_planned_without_weights():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(LlamaConfig(**CONFIGS[LLAMA].to_dict())).to(torch.bfloat16)
    shape = Shape(model, HeadMap.of(model), torch.bfloat16, 512, (4, 512))
    assert shape.parameters == 6_738_415_616 and len(shape.heads) == 1024
    assert shape.weights + shape.narrowed(neurons=True) < 27e9
