"""The adapter: what training and calibration see, what is cut, what a run leaves in its record."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import wraps
from itertools import islice

import numpy as np
import pytest
import torch
import transformers as t

from bench.__main__ import main
from bench.analysis.comparing.comparison import compare
from bench.analysis.quality import quality_name
from bench.analysis.stats.corpus import bleu
from bench.records.arrays import read_arrays
from bench.records.storage.current import read_current
from methods import METHODS
from tasks.builtin import translator
from tasks.errors import TaskError
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tasks.translating import generate, teacher_forcing
from tasks.translation import Translation
from tests.fixtures.translation import tokenizer as own_tokenizer

CPU = torch.device("cpu")


def on_pairs(tiny_pairs, **fields) -> Translation:
    return Translation(TaskSpec(task="translation", data=str(tiny_pairs), text=("en", "hu"), **fields))


@pytest.fixture
def quick(monkeypatch):
    """Trainings take two steps."""
    monkeypatch.setattr(translator, "RECIPE", replace(translator.RECIPE, max_steps=2, evaluate_every=1))


def sources(batches) -> set[tuple[int, ...]]:
    return {
        tuple(ids[mask.bool()].tolist())
        for batch in batches
        for ids, mask in zip(batch.inputs["input_ids"], batch.inputs["attention_mask"], strict=True)
    }


def test_a_token_that_the_model_lacks_is_found_wherever_it_is(tiny_marian, tmp_path):
    """Here of a model without its last embeddings, in one target of the training split."""
    model = t.AutoModelForSeq2SeqLM.from_pretrained(tiny_marian)
    tokenizer = t.AutoTokenizer.from_pretrained(tiny_marian)
    word = "kilometers"
    size = max(tokenizer(text_target=word)["input_ids"])
    model.resize_token_embeddings(size, mean_resizing=False)
    model.save_pretrained(tmp_path / "smaller")
    tokenizer.save_pretrained(tmp_path / "smaller")
    for split, number, target in (("train", 300, word), ("validation", 20, "a"), ("test", 20, "a")):
        rows = [{"en": f"{split} {place}", "hu": target if place == number - 1 else "a"} for place in range(number)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "validation", "test")}
    task = Translation(TaskSpec(task="translation", text=("en", "hu"), model=str(tmp_path / "smaller"), **files))
    with pytest.raises(TaskError, match=f"token id {size}, the model has {size} tokens: they do not belong together"):
        task.validate()


def test_no_source_is_both_calibrated_and_trained_on(tiny_pairs, tmp_path, quick):
    task, cache = on_pairs(tiny_pairs), Cache(tmp_path)
    report = task.prepare(0, cache, CPU)
    assert report["steps"] == 2 and 0 <= report["validation_accuracy"] <= 1
    task.open(0, cache, CPU)
    held_out = sources(task.calibration(0, 999, CPU))
    training = task.training(0, 1.0, CPU)
    trained = sources(islice(training.batches(), 3 * training.epoch_steps))
    assert len(held_out) == task.held_out > 0
    assert trained and not trained & held_out
    assert sources(task.calibration(0, 5, CPU, "train")) <= trained


def test_training_has_the_steps_and_sizes_that_are_asked_for(tiny_pairs, tmp_path, quick):
    task, cache = on_pairs(tiny_pairs), Cache(tmp_path)
    task.prepare(0, cache, CPU)
    task.open(0, cache, CPU)
    training = task.training(0, 1.0, CPU)
    assert training.with_steps(7).steps == 7
    smaller = training.in_batches_of(8)
    for some in (training, smaller, smaller.with_steps(3)):
        one, other = (list(islice(some.batches(), 4)) for _ in range(2))
        for first, second in zip(one, other, strict=True):
            assert torch.equal(first.inputs["decoder_targets"], second.inputs["decoder_targets"])
    assert max(len(batch.labels) for batch in islice(smaller.batches(), 9)) == 8
    weights = training.initial_weights()
    assert weights.keys() == task.open(0, cache, CPU).state_dict().keys()


def test_how_translations_are_made_is_part_of_the_key_but_trains_no_other_model(tiny_pairs, tmp_path, quick):
    greedy, beams = on_pairs(tiny_pairs), on_pairs(tiny_pairs, beams=3)
    assert greedy.fingerprints(0) != beams.fingerprints(0)
    greedy.prepare(0, Cache(tmp_path), CPU)
    assert beams.prepared(0, Cache(tmp_path))
    assert not on_pairs(tiny_pairs, label_smoothing=0.1).prepared(0, Cache(tmp_path))
    assert not greedy.prepared(1, Cache(tmp_path))


def test_a_given_model_is_fine_tuned_from_its_own_weights(tiny_pairs, tiny_marian, tmp_path):
    task, cache = on_pairs(tiny_pairs, model=str(tiny_marian), finetune=True), Cache(tmp_path)
    report = task.prepare(0, cache, CPU)
    assert report["steps"] == 9 and report["examples"] == 3 * 72  # three epochs
    given = on_pairs(tiny_pairs, model=str(tiny_marian)).open(0, cache, CPU).state_dict()
    trained = task.open(0, cache, CPU).state_dict()
    assert given.keys() == trained.keys() == task.training(0, 1.0, CPU).initial_weights().keys()
    assert all(
        torch.equal(weights, given[name]) for name, weights in task.training(0, 1.0, CPU).initial_weights().items()
    )
    assert any(not torch.equal(weights, given[name]) for name, weights in trained.items())


def test_label_smoothing_is_that_of_the_field(tiny_pairs, tiny_marian, tmp_path):
    plain, smoothed = (on_pairs(tiny_pairs, model=str(tiny_marian), label_smoothing=share) for share in (0.0, 0.2))
    for task in (plain, smoothed):
        model = task.open(0, Cache(tmp_path), CPU)
    (batch,) = plain.calibration(0, 8, CPU)
    logits = plain.logits(model, batch)
    real = batch.inputs["decoder_attention_mask"]
    everywhere = -(logits.log_softmax(-1).mean(-1) * real).sum(1) / real.sum(1)
    torch.testing.assert_close(smoothed.loss(logits, batch), 0.8 * plain.loss(logits, batch) + 0.2 * everywhere)


def test_sources_that_are_too_long_are_cut_counted_and_told(tiny_marian, tmp_path):
    long = " or ".join(["12:57 AM"] * 40)
    rows = [{"source": f"{number} grams", "target": f"{number} gramm"} for number in range(40)]
    for split in ("train", "validation", "test"):
        some = [{**row, "source": f"{row['source']} {split}"} for row in rows]
        some += [{"source": f"{split} {number} {long}", "target": "12"} for number in range({"test": 2}.get(split, 1))]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    task = Translation(TaskSpec(task="translation", model=str(tiny_marian), data=str(tmp_path)))
    task.validate()
    told = task.own_data.remarks
    assert (
        "2 of test cut to 48 tokens of their source" in told and "1 of train cut to 48 tokens of their source" in told
    )
    outcomes = task.evaluate(task.open(0, Cache(tmp_path / "cache"), CPU))
    assert outcomes.metrics[f"{tmp_path.name}/sources_cut"] == 2
    assert task.probe(3, CPU).inputs["input_ids"].shape[1] < 48


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_training_of_the_built_in_model_says_whether_it_reached_its_target(target, monkeypatch, quick):
    monkeypatch.setattr(translator, "TARGET", target)
    *_, report = Translation(TaskSpec(task="translation", limit=200)).fit(0, CPU)
    assert report["steps"] == 2  # it is no reason to stop
    assert (report["target"], report["target_met"]) == (target, target == 0)


def sizes_of_batches(model, monkeypatch) -> dict[str, list[int]]:
    """Gets the sizes of the batches that ``model`` translates, and of those whose targets it is given."""
    sizes: dict[str, list[int]] = {"translated": [], "scored": []}
    generate, forward = model.generate, model.forward

    def generated(*, input_ids, **given):
        sizes["translated"].append(len(input_ids))
        return generate(input_ids=input_ids, **given)

    @wraps(forward)
    def scored(*args, **given):
        if "decoder_attention_mask" in given and "encoder_outputs" not in given:
            sizes["scored"].append(len(given["decoder_input_ids"]))
        return forward(*args, **given)

    monkeypatch.setattr(model, "generate", generated)
    monkeypatch.setattr(model, "forward", scored)
    return sizes


def test_batches_for_generation_are_not_limited_by_the_length_of_targets(
    tiny_pairs, tiny_marian, tmp_path, monkeypatch
):
    for module in (teacher_forcing, generate):
        monkeypatch.setattr(module, "LOGITS", 6 * len(own_tokenizer()))  # of one token of 6 pairs
    monkeypatch.setattr(generate, "PER_TOKEN", 0)  # random models do not end by themselves
    for beams, most in ((1, 6), (3, 2)):
        task = on_pairs(tiny_pairs, model=str(tiny_marian), beams=beams)
        model = task.open(0, Cache(tmp_path), CPU)
        sizes = sizes_of_batches(model, monkeypatch)
        task.evaluate(model)
        assert max(sizes["translated"]) == most and max(sizes["scored"]) == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_tokenizer_with_more_tokens_than_a_side_of_the_model_is_told(side, tiny_pairs, tmp_path):
    sizes = {"source": "vocab_size", "target": "decoder_vocab_size"}
    given = {name: 200 if name == sizes[side] else len(own_tokenizer()) for name in sizes.values()}
    ids = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 2, "decoder_start_token_id": 0}
    widths = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "share_encoder_decoder_embeddings": False}
    folder = tmp_path / "unequal"
    t.MarianMTModel(t.MarianConfig(**given, **ids, **widths, **heads)).save_pretrained(folder)
    own_tokenizer().save_pretrained(folder)
    with pytest.raises(TaskError, match=rf"the tokenizer gives a {side} token id \d+, the model has 200 tokens: .*$"):
        on_pairs(tiny_pairs, model=str(folder)).validate()


def test_weights_that_are_not_finite_are_told(tiny_pairs, tiny_marian, tmp_path):
    task = on_pairs(tiny_pairs, model=str(tiny_marian))
    model = task.open(0, Cache(tmp_path), CPU)
    model.final_logits_bias[0, 5] = float("nan")
    with pytest.raises(FloatingPointError, match="not finite, first for test example"):
        task.evaluate(model)


RUN = ("random:draws=2", "michel", "gnorm", "amp", "obs-compensated", "michel:recover=lstsq", "ae", "hies")
TRAINED = ("dsp-joint", "ste")
KINDS = ("decoder", "cross")


@pytest.fixture(scope="module")
def ran(tiny_pairs, tiny_marian, tmp_path_factory):
    """Run some methods on the tiny pairs; the folder of the run."""

    def run(*methods, flags=()):
        out = tmp_path_factory.mktemp("run") / "out"
        own = ["--task", "translation", "--model", tiny_marian, "--data", tiny_pairs, "--text", "en,hu", "--limit", 8]
        given = ["--methods", ",".join(methods), "--seeds", 1, "--levels", 0.5, "--training", 0.1, *flags]
        given += ["--jobs", 1, "--no-latency", "--no-cache", "--device", "cpu", "--out", out]
        assert main([*map(str, ("run", *own, *given))]) == 0
        return out

    return run


@pytest.fixture(scope="module")
def finished(ran):
    """The folder of a run of methods of each kind."""
    return ran(*RUN, *TRAINED)


def test_methods_of_each_kind_run(finished):
    records = {record.cell.label: record for record in read_current(finished)[0].values()}
    assert {label for label, record in records.items() if record.status == "done"} == {*RUN, *TRAINED}


@pytest.mark.slow
def test_every_registered_method_runs(ran):
    records = read_current(ran("all"))[0].values()
    assert METHODS and {record.cell.method for record in records if record.status == "done"} == set(METHODS)


@pytest.mark.slow
def test_only_heads_of_the_kinds_asked_for_go_and_the_record_says_so(ran, finished):
    whole = {record.cell.label: record for record in read_current(finished)[0].values()}
    methods = ("michel", "ste", "amp", "michel:recover=lstsq")
    records = read_current(ran(*methods, flags=["--kinds", "cross,decoder"]))[0].values()
    assert {record.cell.label for record in records if record.status == "done"} == set(methods)
    for record in records:
        result, other = record.result, whole[record.cell.label].result
        assert record.cell.asked["kinds"] == list(KINDS) and record.cell.model.endswith(
            " in decoder and cross attention"
        )
        assert record.key != whole[record.cell.label].key
        assert result.attention == [kind for kind in other.attention if kind != "encoder"] == [*KINDS] * 2
        assert result.shape == [4] * 4 and result.units == 16 and result.removed == [0, 8, 16]
        lost = [result.parameters[0]["encoder"] - result.parameters[level]["encoder"] for level in (1, 2)]
        assert bool(any(lost)) == (record.cell.method == "amp")  # which removes neurons of both sides
        assert result.parameters[0]["decoder"] > result.parameters[1]["decoder"] > result.parameters[2]["decoder"]


def test_a_record_holds_what_bleu_is_computed_from(finished):
    for path, record in read_current(finished)[0].items():
        if record.status == "failed":
            continue
        result, arrays = record.result, read_arrays(path)
        assert quality_name(record) == "BLEU" and result.chance == 0
        assert set(result.signatures) == {"bleu", "chrf"} and "tok:13a" in result.signatures["bleu"]
        statistics, size = arrays["statistics.bleu"], arrays["outcomes"].shape[-1]
        assert result.parts == {"tiny": size} and size > 5
        assert statistics.shape == (len(result.quality), 3, size, 10)
        assert arrays["statistics.chrf"].shape == (len(result.quality), 3, size, 18)
        np.testing.assert_allclose(bleu(statistics.sum(2)), result.quality, atol=1e-12)


def test_a_record_shows_translations_of_the_unpruned_and_of_the_half_pruned_model(finished, tiny_pairs):
    pairs = [tuple(json.loads(line).values()) for line in tiny_pairs.read_text(encoding="utf-8").splitlines()]
    shown = {}
    for record in read_current(finished)[0].values():
        if record.status == "done":
            translations = record.result.translations
            assert len(translations) == 5 and all((each.source, each.reference) in pairs for each in translations)
            assert [list(each.translations) for each in translations] == [[0, record.result.units // 2]] * 5
            shown[record.cell.method] = [each.translations for each in translations]
    assert [each[0] for each in shown["michel"]] == [each[0] for each in shown["gnorm"]]  # of one unpruned model
    assert any(len(set(each.values())) == 2 for each in shown["michel"])


def test_two_methods_are_compared_over_sentences(finished):
    (task,) = compare(finished, "michel", "gnorm", level=0.5).tasks
    assert task.documents.mcnemar == ()
    interval = task.documents.interval
    assert interval.mean == pytest.approx(task.a - task.b) and interval.low <= interval.mean <= interval.high
