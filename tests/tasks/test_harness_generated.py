"""Tasks of lm-eval whose answers are generated: drawn alike, counted where cut, and refused where they cannot fit."""

from __future__ import annotations

import json

import pytest
import torch

from tasks.builtin import abilities, decoder
from tasks.errors import TaskError
from tasks.harness.run import Harness


@pytest.fixture(scope="module")
def language_model():
    """A model with 64 positions."""
    return decoder.build(abilities.documents()["train"], 0)


@pytest.fixture
def own(tmp_path):
    """The harness of one task with these rows, whose prompts are in the column q, and this metric."""

    def make(rows: list[dict[str, object]], metric: str, **content: object) -> Harness:
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        content |= {
            "task": "own",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}},
            "test_split": "test",
            "doc_to_text": "q",
            "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True}],
        }
        (tmp_path / "own.yaml").write_text(json.dumps(content))
        return Harness(["own"], folders=[tmp_path])

    return make


@pytest.fixture
def task(own):
    """The harness of one task, whose answers are asked for with these settings."""
    rows = [{"q": " ".join(text.words[:-1]), "a": text.words[-1]} for text in abilities.documents()["train"][:8]]
    kind = {"output_type": "generate_until", "doc_to_target": "a"}
    return lambda settings: own(rows, "exact_match", **kind, generation_kwargs={"until": ["?"], **settings})


def test_answers_that_are_drawn_depend_on_no_draw_before_and_change_none_after(language_model, task):
    tokenizer, model = language_model
    seen, after = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        harness = task({"max_gen_toks": 4, "do_sample": True, "temperature": 1.0})
        harness(model, tokenizer)
        seen.append([request.resps for request in harness.tasks["own"].instances])
        after.append(torch.rand(1))
        torch.manual_seed(seed)
        assert torch.equal(after[-1], torch.rand(1))
    assert seen[0] == seen[1] and any(seen[0])


def test_prompts_are_cut_for_the_answers_that_follow_them(language_model, task):
    tokenizer, model = language_model
    assert task({"max_gen_toks": 60})(model, tokenizer)["own"].too_long == 8
    assert task({"max_gen_toks": 4})(model, tokenizer)["own"].too_long == 0


@pytest.mark.parametrize("name", ["max_gen_toks", "max_new_tokens"])
def test_the_length_of_answers_has_several_names(language_model, task, name):
    tokenizer, model = language_model
    task({name: 4}).check(model, tokenizer)
    with pytest.raises(TaskError, match="asks for answers of up to 100 tokens"):
        task({name: 100}).check(model, tokenizer)


def test_logits_that_are_not_finite_give_no_answers(task):
    tokenizer, model = decoder.build(abilities.documents()["train"][:50], 0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="logits are not finite"):
        task({"max_gen_toks": 4})(model, tokenizer)


@pytest.mark.parametrize(("metric", "chance"), [("acc", (1 / 4 + 2 / 4) / 2), ("exact_match", 0.0)])
def test_chance_is_the_share_of_choices_that_are_right(own, metric, chance):
    """Whether one of them is likelier than any other text is nothing that a guess among them decides."""
    rows = [{"q": "a", "of": list("abcd"), "right": [1]}, {"q": "b", "of": list("abcd"), "right": [0, 3]}]
    kind = {"output_type": "multiple_choice", "doc_to_choice": "of", "doc_to_target": "right"}
    assert own(rows, metric, **kind).guessing_quality == chance
