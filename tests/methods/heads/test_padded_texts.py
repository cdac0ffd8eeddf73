"""Classifiers of transformers whose logits for a text change with padding after it, as the documents say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.methods.heads.small_models import small_config

DEPEND = ("canine", "mobilebert", "nystromformer", "t5gemma", "yoso")


@pytest.mark.parametrize("model_type", [*DEPEND, "bert", "roberta", "electra", "mpnet", "gpt2", "llama"])
def test_padding_changes_the_logits_of_the_families_that_are_named(model_type):
    config = small_config(model_type, narrow=True)
    config.get_text_config().pad_token_id = padding = config.get_text_config().pad_token_id or 0
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        ids, mask = torch.randint(4, 20, (1, 9)), torch.ones(1, 9, dtype=torch.long)
        alone = model(input_ids=ids, attention_mask=mask).logits
        after = [torch.full((1, 6), padding), torch.zeros_like(mask[:, :6])]
        padded = model(input_ids=torch.cat([ids, after[0]], 1), attention_mask=torch.cat([mask, after[1]], 1)).logits
    difference = float((alone - padded).abs().max() / alone.abs().max())
    assert (difference > 1e-3) == (model_type in DEPEND)
    assert model_type not in DEPEND or f"`{model_type}`" in Path("docs/heads.md").read_text(encoding="utf-8")
