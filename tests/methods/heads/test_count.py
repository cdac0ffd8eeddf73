"""Parameter counts, against the tables of the Greedy-Gnorm paper (Guo & Sheridan, Tables 2 to 5)."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, count_megabytes, count_parameters, remove_heads

BERT = t.BertConfig(vocab_size=21128, num_labels=3)
ROBERTA_LARGE = t.RobertaConfig(
    vocab_size=50265,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    max_position_embeddings=514,
    type_vocab_size=1,
    num_labels=2,
)
ALBERT = t.AlbertConfig(vocab_size=30000, hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=3)
XLM_ROBERTA = t.XLMRobertaConfig(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, num_labels=20)

# class, config, units removed, {module: parameters (before, after)}, MB (before, after); which units go does not matter
TABLES = {
    "bert": (
        t.BertForSequenceClassification,
        BERT,
        117,
        {
            "model": (102269955, 79244355),
            "base": (102267648, 79242048),
            "embeddings": (16622592, 16622592),
            "encoder": (85054464, 62028864),
            "pooler": (590592, 590592),
            "classifier": (2307, 2307),
        },
        (390.13, 302.29),
    ),
    "roberta-large": (
        t.RobertaForSequenceClassification,
        ROBERTA_LARGE,
        245,
        {
            "model": (355361794, 291089474),
            "base": (354310144, 290037824),
            "embeddings": (52000768, 52000768),
            "encoder": (302309376, 238037056),
            "classifier": (1051650, 1051650),
        },
        (1355.6, 1110.42),
    ),
    "albert": (
        t.AlbertForSequenceClassification,
        ALBERT,
        3,
        {
            "model": (11685891, 11095491),
            "base": (11683584, 11093184),
            "embeddings": (3906048, 3906048),
            "encoder": (7186944, 6596544),
            "pooler": (590592, 590592),
            "classifier": (2307, 2307),
        },
        (44.58, 42.33),
    ),
    "xlm-roberta": (
        t.XLMRobertaForSequenceClassification,
        XLM_ROBERTA,
        105,
        {
            "model": (278059028, 257395028),
            "base": (277453056, 256789056),
            "embeddings": (192398592, 192398592),
            "encoder": (85054464, 64390464),
            "classifier": (605972, 605972),
        },
        (1060.71, 981.88),
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_counts_of_the_paper(table):
    model_class, config, removed, counts, megabytes = TABLES[table]
    with torch.device("meta"):
        model = model_class(config)
    heads = HeadMap.of(model)
    mask = heads.full_mask()
    mask[torch.randperm(len(heads), generator=torch.Generator().manual_seed(0))[:removed]] = False
    smaller = remove_heads(model, mask)
    assert count_parameters(model) == {name: before for name, (before, _) in counts.items()}
    assert count_parameters(smaller) == {name: after for name, (_, after) in counts.items()}
    assert count_megabytes(model)["model"] == pytest.approx(megabytes[0], abs=0.01)
    assert count_megabytes(smaller)["model"] == pytest.approx(megabytes[1], abs=0.01)


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
