"""Parameter counts by module; those of published models are in ``tests/bench/suites/test_published_counts.py``."""

from __future__ import annotations

import transformers as t

from methods.heads import count_megabytes, count_parameters


def test_tied_parameters_count_once_and_bytes_follow_the_dtype():
    config = t.BertConfig(
        vocab_size=40, hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=20
    )
    model = t.BertForMaskedLM(config)
    counts = count_parameters(model)
    assert counts["model"] == sum(parameter.numel() for parameter in model.parameters())
    assert counts["model"] == counts["base"] + counts["cls"]
    assert counts["base"] == counts["embeddings"] + counts["encoder"]
    assert count_megabytes(model.half())["model"] == counts["model"] * 2 / 2**20
