"""Generation is timed alike for every size, however uneven, and only where it is asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch
import transformers as t

from bench.__main__ import main
from bench.analysis.cell_metrics import metrics_table
from bench.analysis.costs import generation_speedup
from bench.measure import generation, latency
from bench.records.storage.current import finished, read_current
from methods.heads import HeadMap, remove_heads
from tasks.builtin import abilities, decoder
from tasks.data.encode import Batch
from tests.fixtures.translation import FAMILIES, POSITIONS

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": list(range(20))}


@dataclass
class Texts:
    """As much of a task as generation needs: a text of ``length`` tokens."""

    length: int = 5

    def probe(self, size: int, device: torch.device) -> Batch:
        ids = torch.arange(20, 20 + self.length)[None]
        return Batch(torch.arange(1), {"input_ids": ids}, torch.arange(1))


def language_models(positions=256):
    """A whole model, one whose first layer has no head, and one without any."""
    torch.manual_seed(0)
    config = t.LlamaConfig(**SIZES, **TOKENS, num_key_value_heads=2, max_position_embeddings=positions)
    model = t.LlamaForCausalLM(config).eval()
    heads = HeadMap.of(model)
    return {removed: remove_heads(model, torch.arange(len(heads)) >= removed) for removed in (0, 2, 4)}


def watched(models, monkeypatch):
    """A list that fills with (removed, prompt, tokens) of each run; only three are repeated after two warm-ups."""
    monkeypatch.setattr(generation, "WARM_UPS", 2)
    monkeypatch.setattr(generation, "REPEATS", 3)
    seen = []
    for removed, model in models.items():

        def generate(ids, removed=removed, run=model.generate, **settings):
            tokens = run(ids, **settings)
            seen.append((removed, ids[0].tolist(), tokens[0].tolist()))
            return tokens

        model.generate = generate
    return seen


def test_the_papers_protocol():
    assert (generation.PROMPT, generation.NEW, generation.WARM_UPS, generation.REPEATS) == (12, 128, 10, 20)


def test_every_run_generates_as_many_tokens_greedily(monkeypatch):
    """Half of the vocabulary would end a text; the reference has no cache and takes the likeliest other token."""
    monkeypatch.setattr(generation, "NEW", 16)
    models = language_models()
    seen = watched(models, monkeypatch)
    got = generation.generation_latency(Texts(), [models], torch.device("cpu"))
    assert (got.prompt, got.new) == (12, 16)
    assert [removed for removed, *_ in seen] == [0, 2, 4] * 5  # interleaved
    assert {removed: len(samples) for removed, samples in got.samples.items()} == {0: 3, 2: 3, 4: 3}
    for removed, prompt, tokens in seen[:3]:
        assert prompt == [*range(20, 25), *range(20, 25), 20, 21]  # a short text, repeated
        for _ in range(16):
            with torch.no_grad():
                logits = models[removed](input_ids=torch.tensor([prompt])).logits[0, -1]
            prompt = [*prompt, 20 + int(logits[20:].argmax())]
        assert tokens == prompt


def test_a_long_text_is_cut_and_positions_are_a_limit(monkeypatch):
    models = language_models(positions=20)
    seen = watched(models, monkeypatch)
    got = generation.generation_latency(Texts(15), [models], torch.device("cpu"))
    assert (got.prompt, got.new) == (12, 8)
    assert {(len(prompt), len(tokens)) for _, prompt, tokens in seen} == {(12, 20)}


def test_the_source_of_an_encoder_with_a_decoder_takes_none_of_the_decoders_positions(monkeypatch):
    torch.manual_seed(0)
    model = FAMILIES["marian"]().eval()
    heads = HeadMap.of(model)
    cross = torch.tensor([heads.sites[unit.site].kind == "cross" for unit in heads.units])
    models = {0: model, int(cross.sum()): remove_heads(model, ~cross, heads)}
    seen = watched(models, monkeypatch)
    got = generation.generation_latency(Texts(), [models], torch.device("cpu"))
    assert (got.prompt, got.new) == (12, POSITIONS - 1) and got.samples.keys() == models.keys()
    assert {(len(source), len(tokens)) for _, source, tokens in seen} == {(12, POSITIONS)}


def test_a_slow_model_is_sampled_five_times(monkeypatch):
    models = language_models(positions=20)
    watched(models, monkeypatch)
    monkeypatch.setattr(generation, "REPEATS", 9)
    monkeypatch.setattr(generation, "PATIENCE", 0.0)
    got = generation.generation_latency(Texts(), [models], torch.device("cpu"))
    assert {len(samples) for samples in got.samples.values()} == {5}


@pytest.fixture
def own(place, tmp_path):
    """Flags of a small language model and texts of one's own."""
    tokenizer, model = decoder.build(abilities.documents()["train"], 0)
    for part in (tokenizer, model):
        part.save_pretrained(tmp_path / "model")
    rows = [{"text": document.text} for document in abilities.documents()["train"][:40]]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--task", "harness", "--model", str(tmp_path / "model"), "--data", str(tmp_path / "texts.jsonl")]
    return [*flags, "--seeds", "1", "--jobs", "1", "--device", "cpu", "--out", str(place.out)]


@pytest.mark.slow
def test_a_suite_of_ones_own_model_times_its_own_levels(own, place, monkeypatch):
    """AMP's suite on another model: its levels, calibration, share of training and timing."""
    for name, less in (("WARM_UPS", 1), ("REPEATS", 2), ("NEW", 4)):
        monkeypatch.setattr(generation, name, less)
    monkeypatch.setattr(latency, "REPEATS", 1)
    flags = ["--suite", "amp", "--methods", "none,amp-recovered"]
    assert main(["run", *own, *flags]) == 0
    records = {record.cell.label: record for record in finished(read_current(place.out)[0])}
    removed = [0, 2, 4, 5, 8, 9, 15, 16]  # of 16 units: 3, 7, 10, 15, 17 and 30 of 32, and both ends
    for label, record in records.items():
        timed = {0} if label == "none" else set(removed)
        measured = record.measured
        assert record.result.removed == removed and record.cell.calibration == 50
        assert set(measured.generation.samples) == set(measured.latency.samples[1]) == timed
    recovered = records["amp-recovered"]
    assert recovered.cell.trained == 0.666667
    assert {r["steps"] for r in recovered.result.method_training.reports.values()} == {10}  # 2 of 3 epochs of 5
    samples = recovered.measured.generation.samples
    speedup = sum(samples[0]) / sum(samples[4])  # the median of two is their mean
    assert generation_speedup(recovered, 7 / 32) == pytest.approx(speedup)
    table = metrics_table(records.values()).set_index("label")
    assert (
        table.loc["amp-recovered", "speedup_generate"] == pytest.approx(speedup)
        and table.loc["none", "speedup_generate"] == 1
    )


@pytest.mark.slow
def test_it_is_not_timed_unasked_and_asking_makes_records_anew(own, place, monkeypatch):
    monkeypatch.setattr(generation, "WARM_UPS", 0)
    monkeypatch.setattr(generation, "REPEATS", 1)
    flags = ["--methods", "none", "--levels", "0.5"]
    for more in ([], ["--generate"]):
        assert main(["run", *own, *flags, *more]) == 0
        (record,) = finished(read_current(place.out)[0])
        assert bool(record.measured.generation) == bool(more)
    assert metrics_table([record]).loc[0, "speedup_generate"] != 1  # not measured at 7 of 32


def test_a_model_that_generates_nothing_is_refused(complaint, tiny_data, tiny_model):
    said = complaint("run", "--task", "classification", "--model", tiny_model, "--data", tiny_data, "--generate")
    assert said == "classification: BertForSequenceClassification generates no text, so there is nothing to time"
