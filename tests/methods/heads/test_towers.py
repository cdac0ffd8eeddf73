"""Composite models: a part that is not understood is left alone, and the text tower must be understood."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from methods.heads import HeadMap, UnsupportedArchitecture, load_pruned, remove_heads, save_pruned
from tests.methods.heads.small_models import build, randomize
from tests.methods.heads.sweep import check_exact


@pytest.mark.parametrize(
    ("model_type", "shape", "left_alone"),
    [
        ("llava", (4, 4, 4, 4), []),
        ("clip", (4, 4, 4, 4), []),
        ("paligemma", (4, 4, 4, 4), []),
        ("qwen2_vl", (2, 2), ["visual"]),
        ("qwen2_5_vl", (2, 2), ["visual"]),
        ("gemma3", (2, 2), ["vision_tower"]),
        ("siglip", (4, 4), ["vision_model"]),
    ],
)
def test_the_heads_of_what_is_understood_are_units(model_type, shape, left_alone):
    model = build(model_type, narrow=True)
    randomize(model)
    heads = HeadMap.of(model)
    assert heads.shape == shape and list(heads.left_alone) == left_alone
    assert all(reason and "\n" not in reason for reason in heads.left_alone.values())
    assert all(f"left alone: {part}" in repr(heads) for part in left_alone)
    assert not any(site.name.startswith(f"{part}.") for site in heads.sites for part in left_alone)
    assert check_exact(model, heads) == ""


def test_a_part_beside_the_text_tower_does_not_refuse_the_model():
    model = build("llava", narrow=True)
    whole = HeadMap.of(model)
    attention = next(site.name for site in whole.sites if site.name.startswith("vision_tower."))
    model.get_submodule(attention).slopes = nn.Parameter(torch.zeros(4))
    heads = HeadMap.of(model)
    assert list(heads.left_alone) == ["vision_tower"] and "parameter slopes" in heads.left_alone["vision_tower"]
    assert heads.sites == tuple(site for site in whole.sites if not site.name.startswith("vision_tower."))


def test_a_text_tower_that_is_not_understood_refuses_the_model():
    model = build("llava", narrow=True)
    model.language_model.layers[0].self_attn.slopes = nn.Parameter(torch.zeros(4))
    with pytest.raises(UnsupportedArchitecture, match=r"language_model\.layers\.0\.self_attn has a parameter slopes"):
        HeadMap.of(model)


def test_a_model_with_a_part_left_alone_is_saved_and_loaded(tmp_path):
    model = build("qwen2_vl", narrow=True)
    randomize(model)
    heads = HeadMap.of(model)
    smaller = remove_heads(model, torch.tensor([False, False, True, False]), heads)
    save_pruned(smaller, tmp_path / "smaller")
    loaded = load_pruned(tmp_path / "smaller")
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        torch.testing.assert_close(loaded(input_ids=ids)[0], smaller(input_ids=ids)[0])
    assert HeadMap.of(loaded).shape == (0, 2) and list(HeadMap.of(loaded).left_alone) == ["visual"]
