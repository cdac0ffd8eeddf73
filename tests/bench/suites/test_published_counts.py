"""Parameters and sizes that papers publish are those of the models, to the digit; no weights are needed."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from bench.report.tables.papers import papers
from methods.heads import HeadMap, count_megabytes, count_parameters, remove_heads
from tests.fixtures.checkpoints import CONFIGS

MODELS = {name.partition("/")[2]: config for name, config in CONFIGS.items()}
MODELS["BERT-base uncased"] = MODELS.pop("bert-base-uncased")
SIZES = ("parameters MODULE", "MB MODULE", "parameters removed (%)")
TABLES = [table for paper in papers() for table in paper.tables if {column.kind for column in table.figures} & {*SIZES}]


def counted(kind: str, name: str, model, unpruned) -> float:
    if kind == "parameters removed (%)":
        return 100 * (1 - count_parameters(model)["model"] / count_parameters(unpruned)["model"])
    return (count_parameters if kind == "parameters MODULE" else count_megabytes)(model)[name]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.model)
def test_published_counts_are_those_of_the_model(table):
    """Which heads are removed does not matter."""
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(MODELS[table.model])
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
    assert sorted(table.model for table in TABLES) == sorted(MODELS.keys() - {"Llama-2-7b-hf", "opus-mt-de-en"})
    assert all(not math.isnan(figure) for table in TABLES for row in table.rows for figure in row.figures)
