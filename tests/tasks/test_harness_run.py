"""lm-eval through our harness: its own numbers, document by document, for whatever model is at hand."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import torch
import yaml
from lm_eval.api.instance import Instance
from lm_eval.evaluator import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, AutoTokenizer

from methods.heads import HeadMap, remove_heads
from tasks.builtin import abilities, decoder
from tasks.errors import TaskError
from tasks.harness import data, loading
from tasks.harness.files import LM_EVAL
from tasks.harness.outcomes import outcomes
from tasks.harness.prepared import silenced
from tasks.harness.run import Harness, Result
from tasks.harness.scorer import Scorer, TokenCache

ROOT = Path(__file__).parents[2]
OURS = (*(f"headbench_{ability}" for ability in abilities.ABILITIES), "headbench_texts")
REAL = {
    "hellaswag": "hellaswag_val",
    "piqa": "piqa_val",
    "arc_easy": "arc_easy",
    "arc_challenge": "arc_challenge",
    "winogrande": "winogrande",
    "wikitext": "lm_wikitext2",
}
LM_EVALS = {task: "arc_easy" if task.startswith("arc") else task for task in REAL} | {"winogrande": "default"}  # files


@pytest.fixture(scope="module")
def language_model():
    return decoder.build(abilities.documents()["train"], 0)


@pytest.fixture(scope="module")
def uneven(language_model):
    """The same model without some heads, as many as differ from layer to layer."""
    tokenizer, model = language_model
    heads = HeadMap.of(model)
    mask = torch.ones(len(heads), dtype=torch.bool)
    mask[[0, 1, 2, 3, 5, 8, 9]] = False  # none is left in the first layer
    return tokenizer, remove_heads(model, mask, heads)


@pytest.fixture(scope="module")
def harness():
    return Harness(OURS, limit=20)


def theirs(names, tokenizer, model, limit):
    """The same numbers from lm-eval's own ``simple_evaluate``."""
    manager = TaskManager(include_path=loading.FOLDER, include_defaults=False)
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=64)
    return simple_evaluate(lm, tasks=list(names), task_manager=manager, limit=limit, bootstrap_iters=0)["results"]


def test_numbers_are_those_of_lm_eval_for_any_model_whichever_was_before(language_model, uneven, harness):
    seen = []
    for tokenizer, model in (language_model, uneven, language_model):
        found = harness(model, tokenizer)
        expected = theirs(OURS, tokenizer, model, 20)
        for name in OURS:
            metrics = ("word_perplexity", "byte_perplexity", "bits_per_byte") if name == "headbench_texts" else ("acc",)
            assert found[name].metrics == {metric: expected[name][f"{metric},none"] for metric in metrics}
        seen.append(found)
    assert seen[0] == seen[2] != seen[1]


def test_values_of_the_documents_make_up_the_metric(language_model, harness):
    tokenizer, model = language_model
    for result in harness(model, tokenizer).values():
        metric = next(iter(result.metrics))
        values = result.values[metric]
        assert len(values) == 20
        if metric == "acc":
            assert set(values) <= {0.0, 1.0}
            assert result.metrics[metric] == sum(values) / len(values)
        else:
            told, words = zip(*values, strict=True)
            assert result.metrics[metric] == math.exp(-sum(told) / sum(words))
            texts = abilities.documents()["test"][:20]
            assert list(words) == [len(document.words) for document in texts]


def test_outcomes_are_those_of_the_likeliest_ending(language_model):
    tokenizer, model = language_model
    found = Harness(OURS[:4])(model, tokenizer)
    for ability, name in zip(abilities.ABILITIES, OURS, strict=False):
        questions = [each for each in abilities.documents()["test"] if each.ability == ability]
        right = decoder.choose(model, tokenizer, questions) == torch.tensor([each.label for each in questions])
        assert found[name].values["acc"] == right.double().tolist()


def test_documents_that_are_right_in_part_are_refused():
    assert outcomes({"t": Result({}, {"acc": [1.0, 0, True]}, 0)}).correct.tolist() == [True, False, True]
    with pytest.raises(TaskError, match=r"^t: its acc of document 1 is 0.25, neither right nor wrong"):
        outcomes({"t": Result({}, {"acc": [1.0, 0.25]}, 0)})


@pytest.mark.parametrize("shown", [0, 1])
def test_examples_in_prompts_are_in_the_fingerprint(tmp_path, shown):
    task = {
        "task": "mine",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{tmp_path}/test.jsonl", "train": f"{tmp_path}/train.jsonl"}},
        "test_split": "test",
        "training_split": "train",
        "num_fewshot": shown,
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": ["a", "b"],
        "doc_to_target": "a",
        "metric_list": [{"metric": "acc"}],
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(task))
    found = set()
    for text in ("x", "y"):
        write(tmp_path / "test.jsonl", [{"q": "z"}])
        write(tmp_path / "train.jsonl", [{"q": text}])
        found.add(Harness(["mine"], folders=[str(tmp_path)]).fingerprint)
    assert len(found) == 1 + shown


def test_perplexity_is_that_of_every_word_after_the_beginning(uneven, harness):
    tokenizer, model = uneven
    values = harness(model, tokenizer)["headbench_texts"].values["word_perplexity"]
    for document, (told, _) in zip(abilities.documents()["test"][:5], values[:5], strict=True):
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer.encode(document.text)]])
        with torch.no_grad():
            logits = model(ids[:, :-1]).logits.log_softmax(-1)
        assert told == pytest.approx(logits[0].gather(1, ids[0, 1:, None]).sum().item(), abs=1e-4)


def test_a_perplexity_that_is_too_large_for_a_float_is_the_largest():
    """As that of words is where a paragraph has no spaces, and so is one word."""
    made = loading.load(["headbench_texts"], [], "", {}, False)["headbench_texts"].aggregation()
    assert made["word_perplexity"]([(-800.0, 1)]) == sys.float_info.max
    assert made["word_perplexity"]([(-8.0, 1), (-2.0, 4)]) == pytest.approx(math.exp(2))
    assert made["bits_per_byte"]([(-800.0, 400)]) == pytest.approx(2 / math.log(2))


def test_requests_are_built_and_texts_tokenized_once(language_model, uneven, harness, monkeypatch):
    tokenizer, model = language_model
    harness(model, tokenizer)
    requests = {name: task.instances for name, task in harness.tasks.items()}

    def refuse(*_args, **_options):
        raise AssertionError("tokenized again")

    monkeypatch.setattr(HFLM, "tok_encode", refuse)
    harness(uneven[1], tokenizer)
    assert all(task.instances is requests[name] for name, task in harness.tasks.items())


def test_says_nothing_and_leaves_the_random_state_alone(language_model, capfd):
    tokenizer, model = language_model
    state = torch.random.get_rng_state()
    Harness(OURS, limit=3)(model, tokenizer)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")


def test_documents_that_do_not_fit_are_counted(tmp_path, language_model):
    tokenizer, model = language_model
    names = ("question", "choices", "label")
    rows = [dict(zip(names, ("near " * n, ["the", "dog"], 0), strict=True)) for n in (5, 63, 64, 65)]
    (tmp_path / "arc_easy").mkdir()
    write(tmp_path / "arc_easy" / "test.jsonl", rows)
    found = Harness(["arc_easy"], mirror=str(tmp_path))(model, tokenizer)["arc_easy"]
    # "Question: ", of one token, comes before, "\nAnswer:" after, and the ending is one more; 64 + 1 tokens fit
    assert found.too_long == 3 and len(found.values["acc_norm"]) == 4


@pytest.mark.parametrize("batch_size", [1, 64])
def test_windows_of_repeated_words_are_each_scored_where_they_are_cut(language_model, batch_size):
    tokenizer, model = language_model
    most = model.config.max_position_embeddings
    words = ["the", "dog", "near"] * most
    texts = [" ".join(words[: 2 * most + more]) for more in (3, 6, 12)]  # the last two windows hold the same tokens
    requests = [Instance("loglikelihood_rolling", {}, (text,), number) for number, text in enumerate(texts)]
    with silenced():
        found = Scorer(model, tokenizer, batch_size, TokenCache()).loglikelihood_rolling(requests)
    expected = [likelihood_in_windows(model, [tokenizer.bos_token_id, *tokenizer.encode(text)], most) for text in texts]
    assert found == pytest.approx(expected, abs=1e-4)


def likelihood_in_windows(model, ids, most):
    """Log-likelihood of ``ids`` after the first; each is in one window of ``most`` inputs, the last as full as others.

    A window of full length begins with the last token of the one before.
    """
    total = 0.0
    for start in range(0, len(ids) - 1, most):
        end = min(start + most, len(ids) - 1)
        first = max(0, end - most)
        with torch.no_grad():
            logits = model(torch.tensor([ids[first:end]])).logits.log_softmax(-1)
        total += sum(float(logits[0, place - first, ids[place + 1]]) for place in range(start, end))
    return total


def write(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("task", "plain", "context", "endings"),
    [
        (
            "hellaswag",
            {"ctx": "Roof repair: A man sits. he", "endings": ["a", "b", "c", "d"], "label": 2},
            "Roof repair: A man sits. he",
            ["a", "b", "c", "d"],
        ),
        ("piqa", {"goal": "wash", "choices": ["a", "b"], "label": 1}, "Question: wash\nAnswer:", ["a", "b"]),
        ("arc_easy", {"question": "why", "choices": ["a", "b"], "label": 0}, "Question: why\nAnswer:", ["a", "b"]),
        ("winogrande", {"question": "x _ y", "choices": ["a", "b"], "label": 1}, ["x a", "x b"], ["y", "y"]),
    ],
)
def test_plain_files_are_asked_about_as_lm_eval_asks(tmp_path, task, plain, context, endings):
    (tmp_path / task).mkdir()
    write(tmp_path / task / "val.jsonl", [plain])
    (loaded,) = Harness([task], mirror=str(tmp_path)).tasks.values()
    loaded.build_all_requests()
    contexts = context if isinstance(context, list) else [context] * len(endings)
    assert [each.args for each in loaded.instances] == [(c, f" {e}") for c, e in zip(contexts, endings, strict=True)]
    (doc,) = loaded.eval_docs
    gold = loaded.doc_to_text(doc) if task == "winogrande" else loaded.doc_to_target(doc)
    assert gold == plain["label"]
    original = write(tmp_path / "test.jsonl", [doc])
    assert data.local(str(tmp_path), task)["test"][0] == data.local(str(original), task)["validation"][0]


def question(goal: str) -> dict:
    return {"goal": goal, "choices": ["a", "b"], "label": 1}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_all_files_of_a_split_are_read_in_order_of_their_names(tmp_path, ending):
    for name in ("test-00001-of-00002", "test-00000-of-00002"):
        rows = datasets.Dataset.from_list([question(f"{name} {number}") for number in range(3)])
        (rows.to_parquet if ending == "parquet" else rows.to_json)(tmp_path / f"{name}.{ending}")
    write(tmp_path / "test.tsv", [])  # a copy of another form
    found = data.local(str(tmp_path), "piqa")["test"]["goal"]
    assert list(found) == [f"test-0000{file}-of-00002 {number}" for file in range(2) for number in range(3)]


@pytest.mark.parametrize("task", data.LOCAL)
def test_the_split_is_the_one_that_lm_eval_tests_on_where_both_are_there(tmp_path, task):
    """The test split of some has no labels. lm-eval takes the test split where its task file names one."""
    kind = data.LOCAL[task]
    text = (LM_EVAL / kind.folder / f"{LM_EVALS[task]}.yaml").read_text()
    expected = "test" if re.search("^test_split: test$", text, re.MULTILINE) else "validation"
    for split in ("test", "validation"):
        if task == "wikitext":
            (tmp_path / f"{split}.txt").write_text(f" = {split} = \n a \n", encoding="utf-8")
        else:
            write(tmp_path / f"{split}.jsonl", [dict.fromkeys(kind.columns, split)])
    (first, *_) = data.local(str(tmp_path), task)["test"]
    assert expected in first[kind.columns[0]]


@pytest.mark.parametrize("name", ["._validation.jsonl", ".test.jsonl"])
def test_hidden_files_are_no_documents(tmp_path, name):
    write(tmp_path / "validation.jsonl", [question("seen")])
    (tmp_path / name).write_bytes(bytes(range(256)))
    assert list(data.local(str(tmp_path), "piqa")["test"]["goal"]) == ["seen"]


def test_of_two_tasks_in_one_folder_each_has_its_own_files(tmp_path):
    for name in ("ARC-Challenge-Test", "ARC-Easy-Test"):
        write(tmp_path / f"{name}.jsonl", [{"question": name, "choices": ["a", "b"], "label": 1}])
    asked = {task: data.local(str(tmp_path), task)["test"]["question"] for task in ("arc_easy", "arc_challenge")}
    assert {task: list(each) for task, each in asked.items()} == {
        "arc_easy": ["ARC-Easy-Test"],
        "arc_challenge": ["ARC-Challenge-Test"],
    }


def test_documents_of_the_other_task_are_none(tmp_path):
    write(tmp_path / "ARC-Challenge-Test.jsonl", [{"question": "why", "choices": ["a", "b"], "label": 1}])
    with pytest.raises(TaskError, match=r"no .* file here is named test or validation"):
        data.local(str(tmp_path), "arc_easy")


def test_an_article_begins_a_line_though_the_file_before_does_not_end_one(tmp_path):
    for name in ("One", "Two"):
        (tmp_path / f"test-{len(name) + ord(name[0])}.txt").write_text(f" = {name} = \n a", encoding="utf-8")
    pages = [row["page"] for row in data.local(str(tmp_path), "wikitext")["test"]]
    assert pages == [" = One = \n a\n", " = Two = \n a"]


def test_articles_may_go_on_in_the_next_file(tmp_path):
    (tmp_path / "test-0.txt").write_text(" = One = \n a \n", encoding="utf-8")
    (tmp_path / "test-1.txt").write_text(" b \n = Two = \n c \n", encoding="utf-8")
    pages = [row["page"] for row in data.local(str(tmp_path), "wikitext")["test"]]
    assert pages == [" = One = \n a \n b \n", " = Two = \n c \n"]


def test_articles_begin_with_their_titles(tmp_path):
    text = " \n = One = \n \n a b . \n = = Part = = \n c \n \n = Two words = \n d \n"
    (tmp_path / "test.txt").write_text(text, encoding="utf-8")
    pages = [row["page"] for row in data.local(str(tmp_path), "wikitext")["test"]]
    assert pages == [" = One = \n \n a b . \n = = Part = = \n c \n \n", " = Two words = \n d \n"]


def test_a_title_may_be_one_character(tmp_path):
    pages = [" = M = \n a \n", " = = = \n b \n = = P = = \n", " = No = \n c \n"]
    (tmp_path / "test.txt").write_text("".join(pages), encoding="utf-8")
    found = [row["page"] for row in data.local(str(tmp_path), "wikitext")["test"]]
    assert found == ["".join(pages[:2]), pages[2]]  # an equals sign by itself is no title


@pytest.mark.parametrize("text", ["", " a text \n without titles \n", "= Title =\n a \n"])
def test_articles_without_titles_are_refused(tmp_path, text):
    (tmp_path / "test.txt").write_text(text, encoding="utf-8")
    with pytest.raises(
        TaskError, match=r'test\.txt: contains no document; one begins with a line such as " = Title = "'
    ):
        data.local(str(tmp_path), "wikitext")


FILTERED = """\
task: filtered
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: !function own.text
doc_to_choice: [the, dog]
doc_to_target: 0
fewshot_config: {doc_to_text: !function own.text}
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: contrary, filter: [{function: custom, filter_fn: !function own.contrary}, {function: take_first}]}
"""

OWN = """\
def text(doc):
    return doc["q"]


def contrary(requests, docs):
    return [[(-told, greedy) for told, greedy in answers] for answers in requests]
"""


@pytest.fixture
def own_task(tmp_path):
    """A folder with a task that has functions and two named filters, the second of which turns every answer round."""
    write(tmp_path / "data.jsonl", [{"q": "x"}, {"q": "y"}])
    (tmp_path / "filtered.yaml").write_text(FILTERED.replace("DATA", str(tmp_path / "data.jsonl")))
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


@pytest.mark.slow
def test_the_fingerprint_of_functions_is_that_of_their_files(own_task):
    """Alike in every process, so no address; and another one when a file beside them changes."""
    code = (
        "from tasks.harness.run import Harness; "
        f"print(Harness(['filtered'], folders=[{str(own_task)!r}], trust=True).fingerprint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    def here():
        return Harness(["filtered"], folders=[str(own_task)], trust=True).fingerprint

    first = here()
    assert done.stdout.split()[-1] == first
    (own_task / "helpers.py").write_text("x = 1\n")
    assert here() != first


def test_a_metric_behind_a_named_filter_counts(own_task, language_model):
    tokenizer, model = language_model
    results = Harness(["filtered"], folders=[str(own_task)], trust=True)(model, tokenizer)
    values = results["filtered"].values
    assert [1 - value for value in values["acc,contrary"]] == values["acc,strict"]
    found = outcomes(results)
    assert found.parts == {"filtered": 2}
    assert found.quality == found.metrics["filtered/acc,strict"] == found.correct.double().mean()


def test_complaints_are_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(
        loading, "_manager", lambda *_: TaskManager(include_path=loading.FOLDER, include_defaults=False)
    )
    with pytest.raises(TaskError, match=r"headbench_copi: lm-eval has no such task; did you mean headbench_copy\?"):
        Harness(["headbench_copi"])
    with pytest.raises(TaskError, match="headbench_abilities: a group of tasks: name the tasks"):
        Harness(["headbench_abilities"])
    monkeypatch.undo()
    with pytest.raises(TaskError, match=r"mirror nowhere \(--mirror or HEADBENCH_MIRROR\): no such folder"):
        Harness(["piqa"], mirror="nowhere")
    (tmp_path / "piqa_val").mkdir()
    write(tmp_path / "piqa_val" / "val.jsonl", [{"goal": "x"}])
    with pytest.raises(TaskError, match=r"line 1: expected the columns goal, sol1, sol2, label, or goal, choices"):
        Harness(["piqa"], mirror=str(tmp_path))


def test_a_task_that_cannot_be_had_says_what_would_do(monkeypatch):
    def refuse(**_):
        raise ConnectionError("Couldn't reach 'baber/piqa' on the Hub (OfflineModeIsEnabled)\nand more")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TaskError) as caught:
        Harness(["piqa"])
    assert str(caught.value) == (
        "piqa: its documents (baber/piqa) cannot be loaded (Couldn't reach 'baber/piqa' on the Hub "
        "(OfflineModeIsEnabled)); give a local copy, for instance as baber/piqa in a folder given by --mirror DIR, "
        "or a folder piqa or piqa_val there"
    )


def test_a_mirror_has_hub_ids_by_their_places(tmp_path):
    (tmp_path / "baber" / "piqa").mkdir(parents=True)
    write(tmp_path / "baber" / "piqa" / "validation.jsonl", [{"goal": "g", "sol1": "a", "sol2": "b", "label": 1}])
    (task,) = Harness(["piqa"], mirror=str(tmp_path)).tasks.values()
    assert list(task.eval_docs) == [{"goal": "g", "sol1": "a", "sol2": "b", "label": 1}]


def as_on_the_hub(folder: Path, question: str) -> None:
    """Write a copy of a data set as the hub has it: tables in a folder of their own, told by the README."""
    (folder / "ARC-Easy").mkdir(parents=True, exist_ok=True)
    row = {"question": question, "choices": {"text": ["the", "dog"], "label": ["A", "B"]}, "answerKey": "B"}
    files = ""
    for split in ("train", "test"):
        datasets.Dataset.from_list([row]).to_parquet(folder / "ARC-Easy" / f"{split}-00000-of-00001.parquet")
        files += f"  - split: {split}\n    path: ARC-Easy/{split}-*\n"
    (folder / "dataset_infos.json").write_text("{}")
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: ARC-Easy\n  data_files:\n{files}---\n")


def test_a_copy_as_on_the_hub_is_read_anew_when_it_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for question in ("one", "two", "two words"):
        as_on_the_hub(tmp_path / "mirror" / "allenai" / "ai2_arc", question)
        (task,) = Harness(["arc_easy"], mirror=str(tmp_path / "mirror")).tasks.values()
        assert [doc["question"] for doc in task.eval_docs] == [question]


def test_a_folder_with_documents_is_not_taken_for_one_with_task_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arc_easy").mkdir()
    write(tmp_path / "arc_easy" / "test.jsonl", [{"question": "why", "choices": ["a", "b"], "label": 0}])
    assert loading.names_in("arc_easy") == ["arc_easy"]
    assert len(Harness(["arc_easy"], mirror=".").tasks["arc_easy"].eval_docs) == 1


@pytest.mark.parametrize(
    ("task", "changed", "said"),
    [
        ("arc_easy", {"label": -1}, "label -1: expected the number of the correct one, from 0 to 1"),
        ("arc_easy", {"label": "B"}, "label 'B': expected the number of the correct one, from 0 to 1"),
        ("piqa", {"label": 2}, "label 2: expected the number of the correct one, from 0 to 1"),
        ("winogrande", {"label": None}, "label None: expected the number"),
        ("piqa", {"choices": ["a"]}, "choices: expected 2 texts, found 1"),
        ("winogrande", {"choices": ["a", "b", "c"]}, "choices: expected 2 texts, found 3"),
        ("arc_easy", {"choices": ["a"]}, "choices: expected two or more texts, found 1"),
        ("arc_easy", {"choices": "['a', 'b']"}, "choices: expected a list of texts"),
        ("arc_easy", {"choices": ["a", 2]}, "choices: expected a list of texts"),
        ("hellaswag", {"ctx": None}, "ctx None: expected text"),
        ("hellaswag", {"ctx": "A man sits."}, "ctx 'A man sits.': expected ACTIVITY: TEXT"),
    ],
)
def test_a_row_that_asks_nothing_is_named(tmp_path, task, changed, said):
    question, choices, label = data.LOCAL[task].plain
    names = {"choices": choices, "label": label}
    row = {question: "Asking: why", choices: ["a", "b"], label: 0}
    changed = {names.get(name, name): value for name, value in changed.items()}
    (tmp_path / task).mkdir()
    write(tmp_path / task / "test.jsonl", [row, row | changed])
    with pytest.raises(TaskError, match=f"test.jsonl: line 2: {re.escape(said)}"):
        data.local(str(tmp_path / task), task)


def test_the_number_of_the_correct_one_may_be_text(tmp_path):
    for task, local in data.LOCAL.items():
        if not local.plain:
            continue
        question, choices, label = local.plain
        rows = [{question: "Asking: why", choices: ["a", "b"], label: number} for number in (1, "1")]
        (tmp_path / task).mkdir()
        write(tmp_path / task / "test.jsonl", rows)
        one, same = data.local(str(tmp_path / task), task)["test"]
        assert one == same


WRONG = """\
task: wrong
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: [the, dog]
doc_to_target: "{{target}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.mark.parametrize(
    ("targets", "ok"), [((0, 1), True), (("the", "dog"), True), ((0, 2), False), (("0", "cat"), False)]
)
def test_targets_that_are_no_choice_are_refused(tmp_path, language_model, targets, ok):
    write(tmp_path / "data.jsonl", [{"q": "x", "target": target} for target in targets])
    (tmp_path / "wrong.yaml").write_text(WRONG.replace("DATA", str(tmp_path / "data.jsonl")))
    tokenizer, model = language_model
    harness = Harness(["wrong"], folders=[str(tmp_path)])
    if ok:
        harness.check(model, tokenizer)
        return
    with pytest.raises(TaskError, match="wrong: the target of document 1 is none of its choices"):
        harness.check(model, tokenizer)


TEXTS = """\
task: texts
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: q
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}]
"""


def texts_to_score(folder: Path, texts: list, text: str = TEXTS) -> Harness:
    write(folder / "data.jsonl", [{"q": each} for each in texts])
    (folder / "texts.yaml").write_text(text.replace("DATA", str(folder / "data.jsonl")))
    return Harness(["texts"], folders=[str(folder)])


def test_texts_are_scored_though_some_are_empty(tmp_path, language_model):
    tokenizer, model = language_model
    harness = texts_to_score(tmp_path, ["the dog", ""])
    harness.check(model, tokenizer)
    assert outcomes(harness(model, tokenizer)).text_bytes["texts"].tolist() == [7, 0]


def test_texts_without_the_metric_that_compares_them_are_refused(tmp_path):
    text = TEXTS.replace(", {metric: byte_perplexity}", "")
    with pytest.raises(TaskError, match=r"^texts: byte_perplexity is none of its metrics \(word_perplexity\): add it"):
        texts_to_score(tmp_path, ["the dog"], text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([5, 6], r"document 0 has 5 in place of a text \(doc_to_target\)"),
        (["the dog", None], r"document 1 has None in place of a text"),
        ([["the", "dog"]], r"document 0 has \['the', 'dog'\] in place of a text"),
        (["", ""], r"all its texts are empty"),
    ],
)
def test_what_is_no_text_is_refused_before_a_model_is_measured(tmp_path, language_model, texts, said):
    tokenizer, model = language_model
    harness = texts_to_score(tmp_path, texts)
    with pytest.raises(TaskError, match=f"^texts: {said}"):
        harness.check(model, tokenizer)


def test_documents_with_dates_have_a_fingerprint(tmp_path):
    found = set()
    for day in (1, 1, 2):
        rows = [{"q": "x", "target": 0, "asked": datetime.date(2026, 1, day)}]
        datasets.Dataset.from_list(rows).to_parquet(tmp_path / f"{day}.parquet")
        text = WRONG.replace("DATA", str(tmp_path / f"{day}.parquet")).replace(": json", ": parquet")
        (tmp_path / "wrong.yaml").write_text(text)
        found.add(Harness(["wrong"], folders=[str(tmp_path)]).fingerprint)
    assert len(found) == 2


def test_documents_that_are_right_in_part_are_refused_before_a_model_is_measured(tmp_path, language_model):
    write(tmp_path / "data.jsonl", [{"q": "x", "target": 0}])
    text = WRONG.replace("DATA", str(tmp_path / "data.jsonl")) + "process_results: !function shares.of\n"
    (tmp_path / "wrong.yaml").write_text(text)
    (tmp_path / "shares.py").write_text(
        "def of(doc, results):\n    return {'acc': results[0][0] / sum(r[0] for r in results)}\n"
    )
    tokenizer, model = language_model
    with pytest.raises(TaskError, match=r"wrong: its acc of document 0 is 0.333, neither right nor wrong"):
        Harness(["wrong"], folders=[str(tmp_path)], trust=True).check(model, tokenizer)


def test_a_fault_of_a_task_file_is_not_told_as_one_of_documents(tmp_path):
    write(tmp_path / "data.jsonl", [{"q": "x", "target": 0}])
    broken = WRONG.replace("DATA", str(tmp_path / "data.jsonl")).replace("{{q}}", "{{q")
    (tmp_path / "wrong.yaml").write_text(broken)
    with pytest.raises(TaskError, match=r"wrong: lm-eval cannot use .*wrong\.yaml \(TemplateSyntaxError"):
        Harness(["wrong"], folders=[str(tmp_path)])


@pytest.mark.slow
@pytest.mark.data
def test_real_tasks_give_the_numbers_of_lm_evals_command_line(real_data, tmp_path):
    """To the last digit, on a real model; HEADBENCH_HARNESS_LIMIT sets how many documents, 0 for all."""
    limit = int(os.environ.get("HEADBENCH_HARNESS_LIMIT", "3"))
    weights = real_data / "weights" / "stories260K"
    mirror = real_data / "data"
    expected = command_line(weights, {name: str(mirror / folder) for name, folder in REAL.items()}, tmp_path, limit)

    harness = Harness(list(REAL), mirror=str(mirror), limit=limit or None)
    found = harness(AutoModelForCausalLM.from_pretrained(weights), AutoTokenizer.from_pretrained(weights))
    for name in REAL:
        numbers = {key: value for key, value in expected[name].items() if key.endswith(",none") and "stderr" not in key}
        ours = {f"{metric},none": value for metric, value in found[name].metrics.items()}
        segments = {metric for metric in ours if metric.startswith("perplexity_")}  # which lm-eval does not count
        assert {metric: value for metric, value in ours.items() if metric not in segments} == numbers
        print(name, found[name].metrics, found[name].too_long, len(next(iter(found[name].values.values()))))
    assert found["wikitext"].too_long > 0


def command_line(weights: Path, local: dict[str, str], folder: Path, limit: int):
    """Results of ``lm_eval`` itself, whose own YAML reads JSON of the original columns."""
    manager = loading._manager(list(local), [])
    for name, place in local.items():
        documents = data.local(place, name)["test"]
        rows = write(folder / f"{name}.jsonl", documents.select(range(min(limit or len(documents), len(documents)))))
        config = {
            "include": str(manager.task_index[name].yaml_path),
            "task": name,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": {"validation": str(rows), "test": str(rows)}},
            "training_split": None,
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "lm_eval", "--model", "hf", "--model_args", f"pretrained={weights}"]
    command += ["--tasks", ",".join(local), "--include_path", str(folder), "--batch_size", "64", "--device", "cpu"]
    command += ["--output_path", str(folder / "out"), *(["--limit", str(limit)] if limit else [])]
    environment = {**os.environ, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (out,) = (folder / "out").rglob("results*.json")
    return json.loads(out.read_text(encoding="utf-8"))["results"]
