"""Composite models with a part that is not understood: what a record, a leaderboard and a pruned model say of it."""

from __future__ import annotations

import pytest
from transformers import Gemma3Config, Gemma3ForSequenceClassification

from bench.__main__ import main
from bench.records.schema import FinishedRecord
from methods.heads import HeadMap, load_pruned
from tests.fixtures.classifiers import save_classifier

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}


@pytest.fixture
def gemma3(place, tiny_model):
    """A folder with a random Gemma 3 classifier, which may be given images, and its tokenizer."""

    def config(vocab_size: int) -> Gemma3Config:
        text = SIZES | {"num_key_value_heads": 4, "head_dim": 8, "vocab_size": vocab_size, "pad_token_id": 0}
        images = SIZES | {"image_size": 16, "patch_size": 8}
        return Gemma3Config(text_config=text, vision_config=images, mm_tokens_per_image=4)

    place.model = save_classifier(place.folder / "gemma3", tiny_model, Gemma3ForSequenceClassification, config)
    return place.model


def test_the_record_and_the_leaderboard_say_which_part_stays_and_why(place, gemma3, capsys):
    assert place.run("--methods", "michel", "--levels", "50%") == 0
    (record,) = map(FinishedRecord.model_validate, place.records().values())
    assert record.result.shape == [4, 4]
    ((part, reason),) = record.result.left_alone.items()
    assert part.endswith("vision_tower") and "SiglipMultiheadAttentionPoolingHead" in reason and "\n" not in reason
    capsys.readouterr()
    assert main(["leaderboard", str(place.out)]) == 0
    assert capsys.readouterr().out.count(f"heads of {part} are no units and stay") == 1


def test_prune_says_which_part_stays(place, gemma3):
    own = ["--task", "classification", "--model", str(gemma3), "--data", str(place.data), "--device", "cpu"]
    assert main(["prune", *own, "--method", "michel", "--keep", "0.5", "--out", str(place.folder / "small")]) == 0
    smaller = load_pruned(place.folder / "small")
    (part,) = HeadMap.of(smaller).left_alone
    assert f"All heads of {part} stay" in (place.folder / "small" / "README.md").read_text(encoding="utf-8")
