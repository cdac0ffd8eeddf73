"""Models whose attention cannot run without any head: what a record, a leaderboard and a pruned model say of them."""

from __future__ import annotations

from functools import partial

import pytest
from transformers import StableLmConfig, StableLmForSequenceClassification

from bench.__main__ import main
from bench.analysis.knee import inflection
from bench.records.result import Result
from bench.records.schema import FinishedRecord
from methods.heads import HeadMap, load_pruned
from tests.fixtures.classifiers import save_classifier


@pytest.fixture
def stablelm(place, tiny_model):
    """A folder with a random StableLM classifier (2 layers, 4 heads each) and its tokenizer."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}

    config = partial(StableLmConfig, intermediate_size=16, pad_token_id=0, **sizes)
    place.model = save_classifier(place.folder / "stablelm", tiny_model, StableLmForSequenceClassification, config)
    return place.model


def test_the_record_says_what_stays_and_counts_what_goes(place, stablelm, capsys):
    assert place.run("--methods", "michel,greedy-michel,fisher-rearranged", "--levels", "all") == 0
    records = [FinishedRecord.model_validate(record) for record in place.records().values()]
    assert len(records) == 3
    for record in records:
        result = record.result
        assert (result.units, result.never_empty, result.removed) == (8, [0, 1], list(range(7)))
        last = [order[6:] for order in result.orders] if result.orders else [result.kept[-1]]
        assert all(sorted(unit // 4 for unit in kept) == [0, 1] for kept in last)
        with pytest.raises(ValueError, match="levels from 0 to at most 6"):
            Result.model_validate(result.model_dump() | {"removed": [0, 1, 2, 3, 4, 5, 7]})
        with pytest.raises(ValueError, match="never_empty has a module that is not one of 2"):
            Result.model_validate(result.model_dump() | {"never_empty": [0, 2]})
    assert any(inflection(record) for record in records)  # all levels that there can be are there
    capsys.readouterr()
    assert main(["leaderboard", str(place.out)]) == 0
    said = "2 of 2 attention modules cannot run without any head and keep one unit each: at most 6 of 8 units go"
    assert capsys.readouterr().out.count(said) == 1


def test_prune_keeps_one_of_each_layer_and_says_so(place, stablelm, capsys):
    own = ["--task", "classification", "--model", str(stablelm), "--data", str(place.data), "--device", "cpu"]
    assert main(["prune", *own, "--method", "michel", "--keep", "2", "--out", str(place.folder / "small")]) == 0
    assert "2 of 2 attention modules cannot run without any head, so the best unit of each stays" in (
        place.folder / "small" / "README.md"
    ).read_text(encoding="utf-8")
    smaller = load_pruned(place.folder / "small")
    assert HeadMap.of(smaller).shape == (1, 1)
    capsys.readouterr()
    again = ["run", *own[:2], "--model", str(place.folder / "small"), *own[4:], "--methods", "none", "--seeds", "1"]
    assert main([*again, "--out", str(place.out)]) == 2
    said = capsys.readouterr().err
    assert "small: the 2 attention modules that have heads cannot run without any, and have one unit each" in said
    assert said.count("\n") == 1 and not place.out.exists()
    for keep in ("0.0", "1"):
        capsys.readouterr()
        assert main(["prune", *own, "--method", "michel", "--keep", keep, "--out", str(place.folder / "none")]) == 2
        said = capsys.readouterr().err
        assert f"--keep {keep}: 2 of 2 attention modules of this model cannot run" in said and said.count("\n") == 1
        assert "keep at least 2 of 8 units" in said and not (place.folder / "none").exists()
