"""BLEU and chrF of a whole test split, by sacrebleu, with what they are computed from sentence by sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tasks.data.dataset import Example
from tasks.outcomes import Outcomes


@dataclass(frozen=True)
class CorpusOutcomes(Outcomes):
    """Outcomes whose quality is a figure of the whole test split, and no mean over its examples.

    correct: whether each translation is its reference, word for word. corpus_quality: 0 to 1. statistics: by metric,
    numbers of each sentence that it is computed from once they are summed up, (N, numbers) int32. signatures: by
    metric, how it was computed. texts: the translations, and sources, references: what they are of, in the data set's
    order.
    """

    corpus_quality: float = 0.0
    statistics: Mapping[str, Tensor] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def quality(self) -> float:
        return self.corpus_quality


def outcomes(
    name: str, translations: Sequence[str], examples: Sequence[Example], more: Mapping[str, float]
) -> Outcomes:
    """BLEU (the quality) and chrF of ``translations`` of ``examples``, 0 to 1, as metrics of ``name`` beside ``more``.

    Both are sacrebleu's with its defaults (Post 2018, "A Call for Clarity in Reporting BLEU Scores").
    """
    from sacrebleu.metrics import BLEU, CHRF

    sources, references = zip(*(example.texts for example in examples), strict=True)
    metrics: dict[str, Any] = {"bleu": BLEU(), "chrf": CHRF()}
    statistics, signatures, figures = {}, {}, {}
    for metric, score in metrics.items():
        found = score._extract_corpus_statistics(translations, [references])
        summed = [sum(column) for column in zip(*found, strict=True)]
        figures[metric] = min(1.0, score._compute_score_from_stats(summed).score / 100)  # rounding may exceed 1
        statistics[metric] = torch.tensor(found, dtype=torch.int32)
        signatures[metric] = str(score.get_signature())
    pairs = zip(translations, references, strict=True)
    return CorpusOutcomes(
        correct=torch.tensor([text.split() == reference.split() for text, reference in pairs]),
        parts={name: len(translations)},
        metrics={f"{name}/{metric}": value for metric, value in {**figures, **more}.items()},
        corpus_quality=figures["bleu"],
        statistics=statistics,
        signatures=signatures,
        texts=tuple(translations),
        sources=sources,
        references=references,
    )
