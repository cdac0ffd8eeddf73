"""What lm-eval says of a model, as answers of a task."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tasks.contract import Answers
from tasks.harness.prepared import right_or_wrong
from tasks.harness.run import Result

SIZED = "byte_perplexity"  # of each document: log-likelihood, and number of bytes


def answers(results: Mapping[str, Result]) -> Answers:
    """Right or wrong by each task's own metric, likelihoods of the texts of perplexity tasks, and all metrics.

    A document that does not fit in the model's context is counted, as ``TASK/documents_cut``.
    """
    right: dict[str, torch.Tensor] = {}
    nats: dict[str, torch.Tensor] = {}
    sizes: dict[str, torch.Tensor] = {}
    metrics: dict[str, float] = {}
    for name, result in results.items():
        if metric := right_or_wrong(result.values):
            right[name] = torch.tensor([bool(value) for value in result.values[metric]])
        else:
            told = torch.tensor(result.values[SIZED], dtype=torch.float64)  # (M, 2)
            nats[name], sizes[name] = -told[:, 0], told[:, 1]
        metrics |= {f"{name}/{metric}": value for metric, value in result.metrics.items()}
        if result.longer:
            metrics[f"{name}/documents_cut"] = float(result.longer)
    outcomes = torch.cat([torch.empty(0, dtype=torch.bool), *right.values()])
    return Answers(outcomes, {name: len(each) for name, each in right.items()}, nats, sizes, metrics)
