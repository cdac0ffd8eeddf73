"""Outcomes of a task from the results of lm-eval."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tasks.harness.prepared import LIKELIHOODS, accuracy_metric, check_right_or_wrong
from tasks.harness.run import Result
from tasks.outcomes import Outcomes


def outcomes(results: Mapping[str, Result]) -> Outcomes:
    """Correctness by each task's own metric, likelihoods of the texts of perplexity tasks, and all metrics.

    Documents that do not fit in the model's context are counted as ``TASK/documents_cut``. Raises TaskError for
    documents that are right in part.
    """
    correct: dict[str, torch.Tensor] = {}
    negative_log_likelihoods: dict[str, torch.Tensor] = {}
    text_bytes: dict[str, torch.Tensor] = {}
    metrics: dict[str, float] = {}
    for name, result in results.items():
        if metric := accuracy_metric(result.values):
            for number, value in enumerate(result.values[metric]):
                check_right_or_wrong(name, metric, number, value)
            correct[name] = torch.tensor([bool(value) for value in result.values[metric]])
        else:
            scored = torch.tensor(result.values[LIKELIHOODS], dtype=torch.float64)  # (M, 2)
            negative_log_likelihoods[name], text_bytes[name] = -scored[:, 0], scored[:, 1]
        metrics |= {f"{name}/{metric}": value for metric, value in result.metrics.items()}
        if result.too_long:
            metrics[f"{name}/documents_cut"] = float(result.too_long)
    return Outcomes(
        correct=torch.cat([torch.empty(0, dtype=torch.bool), *correct.values()]),
        parts={name: len(each) for name, each in correct.items()},
        negative_log_likelihoods=negative_log_likelihoods,
        text_bytes=text_bytes,
        metrics=metrics,
    )
