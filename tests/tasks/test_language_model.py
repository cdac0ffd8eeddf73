"""The adapter for language models: likelihood per token, answers that add up, batches of bounded size."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
from tokenizers.normalizers import Replace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from methods.heads import HeadMap, gated
from tasks import language_model
from tasks.builtin import abilities
from tasks.errors import TaskError
from tasks.language_model import LanguageModel
from tasks.models.cache import Cache
from tasks.outcomes import Outcomes
from tasks.request import TaskSpec

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def opened(tiny_language_model, tiny_texts, tmp_path_factory):
    """The adapter on an untrained model and texts of one's own, and that model."""
    names = ("headbench_copy", "headbench_roles", "headbench_own_texts")
    spec = TaskSpec(task="harness", data=str(tiny_texts), model=str(tiny_language_model), harness_tasks=names)
    task = LanguageModel(spec)
    task.validate()
    return task, task.open(0, Cache(tmp_path_factory.mktemp("cache")), CPU)


def test_the_loss_is_nats_per_token_whatever_the_padding(opened):
    task, model = opened
    batches = task.calibration(0, 20, CPU)
    assert sum(len(batch.labels) for batch in batches) == 20
    assert {len(set(batch.inputs["attention_mask"].sum(1).tolist())) for batch in batches} != {1}
    with torch.no_grad():
        for batch in batches:
            losses = task.loss(task.logits(model, batch), batch)
            for ids, mask, loss in zip(batch.inputs["input_ids"], batch.inputs["attention_mask"], losses, strict=True):
                text = ids[mask.bool()][None]
                told = model(input_ids=text).logits[0, :-1].log_softmax(-1)
                expected = -told.gather(1, text[0, 1:, None]).mean().item()
                assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_texts_to_score_on_need_no_other_split_and_data_is_named_after_its_file(tiny_language_model, tmp_path):
    file = tmp_path / "tales.jsonl"
    file.write_text(
        "".join(json.dumps({"text": document.text}) + "\n" for document in abilities.documents()["train"][:2])
    )
    own = {"task": "harness", "model": str(tiny_language_model)}
    names = {
        ("headbench_copy",): "headbench_copy",
        (): "tales",
        ("headbench_copy", "headbench_own_texts"): "headbench_copy+tales",
    }
    for tasks, name in names.items():
        for source in ({"data": str(file)}, {"train": str(file)}):
            task = LanguageModel(TaskSpec(**own, **source, harness_tasks=tasks))
            assert task.data_name == name
            if tasks == ("headbench_copy",):
                task.validate()
                model = task.open(0, Cache(tmp_path), CPU)
                assert sum(len(batch.labels) for batch in task.calibration(0, 50, CPU)) == 2
                assert len(task.probe(3, CPU).labels) == 3 and task.evaluate(model).parts
            else:
                with pytest.raises(TaskError, match="split is empty"):
                    task.validate()


def test_logits_of_padding_are_zero(opened):
    task, model = opened
    (batch, *_) = task.calibration(0, 20, CPU)
    padding = ~batch.inputs["attention_mask"].bool()
    with torch.no_grad():
        logits = task.logits(model, batch)
    assert padding.any() and (logits[padding] == 0).all() and (logits[~padding] != 0).any()


def test_answers_add_up_to_the_metrics(opened):
    task, model = opened
    found = task.evaluate(model)
    questions = {name: [q for q in abilities.documents()["test"] if q.ability == name] for name in ("copy", "roles")}
    assert found.parts == {f"headbench_{name}": len(each) for name, each in questions.items()}
    for name, right in zip(found.parts, found.correct.split(list(found.parts.values())), strict=True):
        assert found.metrics[f"{name}/acc"] == right.double().mean().item()
    assert found.quality == pytest.approx(sum(found.metrics[f"{name}/acc"] for name in found.parts) / 2)
    nats, sizes = found.negative_log_likelihoods["headbench_own_texts"], found.text_bytes["headbench_own_texts"]
    assert sizes.tolist() == [len(document.text) for document in abilities.documents()["test"][:12]]
    told = found.metrics["headbench_own_texts/byte_perplexity"]
    assert math.exp(nats.sum().item() / sizes.sum().item()) == pytest.approx(told)


def test_answers_are_those_of_the_gated_model(opened):
    task, model = opened
    gates = torch.ones(len(HeadMap.of(model)))
    gates[[1, 2, 7]] = 0
    with gated(model, gates):
        pruned = task.evaluate(model)
    assert not torch.equal(
        pruned.negative_log_likelihoods["headbench_own_texts"],
        task.evaluate(model).negative_log_likelihoods["headbench_own_texts"],
    )


def test_quality_of_texts_alone_is_the_probability_of_a_byte():
    none = torch.empty(0, dtype=torch.bool)
    nats = {"a": torch.tensor([2.0, 8.0]), "b": torch.tensor([0.0])}
    sizes = {"a": torch.tensor([4.0, 1.0]), "b": torch.tensor([5.0])}
    assert Outcomes(none, {}, nats, sizes).quality == pytest.approx((math.exp(-2) + 1) / 2)


def test_chance_is_that_of_a_guess(opened, tiny_language_model, tiny_texts):
    task, _ = opened
    assert task.guessing_quality == 0.25
    own = TaskSpec(task="harness", data=str(tiny_texts), model=str(tiny_language_model))
    assert LanguageModel(own).guessing_quality == 1 / 256


def test_logits_of_that_are_not_finite_are_told(opened):
    task, model = opened
    broken = torch.nn.utils.parameters_to_vector(model.parameters()).clone()
    weight = model.lm_head.weight.data
    kept = weight[5].clone()
    weight[5] = float("nan")
    try:
        with pytest.raises(FloatingPointError, match="logits are not finite"):
            task.evaluate(model)
    finally:
        weight[5] = kept
    assert torch.equal(broken, torch.nn.utils.parameters_to_vector(model.parameters()))


def test_batches_are_small_where_logits_are_large(opened, monkeypatch):
    task, _ = opened
    monkeypatch.setattr(language_model, "LOGITS", 20 * len(task._tokenizer))
    assert max(len(batch.labels) for batch in task.calibration(0, 20, CPU)) == 1


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("tasks", [(), ("headbench_copy",)])
def test_a_text_without_a_token_is_refused(tmp_path, tiny_language_model, split, tasks):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("train", "test"):
        rows = [{"text": f"the king {number} of {name}"} for number in range(20)]
        rows += [{"text": "\x01"}] if name == split else []
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenizer = AutoTokenizer.from_pretrained(tiny_language_model)
    tokenizer._tokenizer.normalizer = Replace("\x01", "")
    model = shutil.copytree(tiny_language_model, tmp_path / "model")
    tokenizer.save_pretrained(model)
    spec = TaskSpec(task="harness", data=str(data), model=str(model), harness_tasks=tasks)
    with pytest.raises(TaskError, match=rf"^{data}: a {split} text has no token that .*: '\\x01'; leave it out$"):
        LanguageModel(spec).validate()


def test_own_tasks_are_checked_for_the_small_model_too(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"q": "the", "answer": "cat"}\n')
    (tmp_path / "wrong.yaml").write_text(
        "{task: wrong, dataset_path: json, test_split: test, output_type: multiple_choice, doc_to_text: q, "
        f"dataset_kwargs: {{data_files: {{test: {tmp_path}/data.jsonl}}}}, "
        "doc_to_choice: [king, dog], doc_to_target: answer, metric_list: [{metric: acc}]}"
    )
    with pytest.raises(TaskError, match=r"^wrong: the target of document 0 is none of its choices"):
        LanguageModel(TaskSpec(task="harness", harness_tasks=(str(tmp_path),))).validate()


def test_texts_of_several_columns_are_one_text_in_lines(tmp_path, tiny_language_model):
    rows = [{"ask": f"the king {n}", "more": None if n % 2 else "near", "say": "boys"} for n in range(60)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = TaskSpec(
        task="harness",
        data=str(tmp_path / "d.jsonl"),
        model=str(tiny_language_model),
        text=("ask", "more", "say"),
    )
    texts = {e.texts[0] for split in ("train", "validation", "test") for e in getattr(LanguageModel(spec).texts, split)}
    assert texts == {f"the king {n}\nboys" if n % 2 else f"the king {n}\nnear\nboys" for n in range(60)}


def test_another_document_makes_another_fingerprint(tiny_language_model, tiny_texts, tmp_path):
    def prints(folder):
        return LanguageModel(TaskSpec(task="harness", data=str(folder), model=str(tiny_language_model))).fingerprints(0)

    copy = tmp_path / "tiny"
    copy.mkdir()
    for file in tiny_texts.iterdir():
        (copy / file.name).write_text(file.read_text())
    assert prints(copy) == prints(tiny_texts)
    (copy / "test.txt").write_text((copy / "test.txt").read_text() + "\n\nthe king admired himself")
    changed = prints(copy)
    assert changed["data"][0] != prints(tiny_texts)["data"][0] and changed["data"][1] != prints(tiny_texts)["data"][1]


def test_where_texts_are_cut_by_another_name_for_positions_is_in_the_fingerprint(
    tiny_language_model, tiny_texts, tmp_path
):
    """As in configurations of MPT."""
    folder = shutil.copytree(tiny_language_model, tmp_path / "model")
    path = folder / "config.json"
    for length in (None, 24):
        path.write_text(json.dumps(json.loads(path.read_text()) | ({"max_seq_len": length} if length else {})))
        task = LanguageModel(TaskSpec(task="harness", data=str(tiny_texts), model=str(folder)))
        assert task.fingerprints(0)["model"].get("length") == length


def test_a_beginning_in_the_text_itself_is_the_only_one(tiny_language_model, tiny_texts):
    """As lm-eval has it, also for tokenizers that put the token before each text."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_language_model)
    begin, first = tokenizer.bos_token_id, tokenizer.bos_token
    tokenizer._tokenizer.post_processor = TemplateProcessing(single=f"{first} $A", special_tokens=[(first, begin)])
    task = LanguageModel(TaskSpec(task="harness", data=str(tiny_texts), model=str(tiny_language_model)))
    plain, with_beginning = task._encode(["the dog", f"{first} the dog"], tokenizer)
    assert plain.tokens == with_beginning.tokens
    assert plain.tokens["input_ids"].count(begin) == 1 and plain.tokens["input_ids"][0] == begin


def test_a_tokenizer_without_padding_token_is_saved_as_it_was(tiny_language_model, tiny_texts, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_language_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    task = LanguageModel(TaskSpec(task="harness", data=str(tiny_texts), model=str(folder), limit=3))
    task.evaluate(task.open(0, Cache(tmp_path / "cache"), CPU))
    task.save_tokenizer(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").pad_token is None
