"""Parameters and sizes that papers publish are those of the models, to the digit; no weights are needed."""

from __future__ import annotations

import math

import pytest
import torch
import transformers as t

from bench.report.tables.papers import papers
from methods.heads import HeadMap, count_megabytes, count_parameters, remove_heads

MODELS = {
    "bert-base-chinese-finetuning-financial-news-sentiment-v2": (
        t.BertForSequenceClassification,
        t.BertConfig(vocab_size=21128, num_labels=3),
    ),
    "albert-base-v2-mnli": (
        t.AlbertForSequenceClassification,
        t.AlbertConfig(vocab_size=30000, hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=3),
    ),
    "sentiment-roberta-large-english": (
        t.RobertaForSequenceClassification,
        t.RobertaConfig(
            vocab_size=50265,
            hidden_size=1024,
            num_hidden_layers=24,
            num_attention_heads=16,
            intermediate_size=4096,
            max_position_embeddings=514,
            type_vocab_size=1,
            num_labels=2,
        ),
    ),
    "xlm-roberta-base-language-detection": (
        t.XLMRobertaForSequenceClassification,
        t.XLMRobertaConfig(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, num_labels=20),
    ),
    "BERT-base uncased": (t.BertForSequenceClassification, t.BertConfig(num_labels=3)),
}
SIZES = ("parameters MODULE", "MB MODULE", "parameters removed (%)")
TABLES = [table for paper in papers() for table in paper.tables if {column.kind for column in table.figures} & {*SIZES}]


def counted(kind: str, name: str, model, unpruned) -> float:
    if kind == "parameters removed (%)":
        return 100 * (1 - count_parameters(model)["model"] / count_parameters(unpruned)["model"])
    return (count_parameters if kind == "parameters MODULE" else count_megabytes)(model)[name]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.model)
def test_published_counts_are_those_of_the_model(table):
    """Which heads are removed does not matter."""
    make, config = MODELS[table.model]
    with torch.device("meta"):
        model = make(config)
    heads = HeadMap.of(model)
    assert len(heads) == table.units == table.whole
    assert table.parameters in (None, count_parameters(model)["model"])
    drawn = torch.randperm(len(heads), generator=torch.Generator().manual_seed(0))
    for row in table.rows:
        mask = heads.full_mask()
        mask[drawn[: row.removed]] = False
        smaller = remove_heads(model, mask)
        for column, figure in zip(table.figures, row.figures, strict=True):
            if column.kind in SIZES:
                found = counted(column.kind, column.name, smaller, model)
                assert found == (figure if column.kind == SIZES[0] else pytest.approx(figure, abs=0.01)), column.title
    modules = {column.name for column in table.figures if column.kind == SIZES[0]}
    assert not modules or modules == set(count_parameters(model))  # every module is in the table


def test_the_tables_are_all_found():
    assert sorted(table.model for table in TABLES) == sorted(MODELS)
    assert all(not math.isnan(figure) for table in TABLES for row in table.rows for figure in row.figures)
