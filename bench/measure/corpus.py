"""What a record holds of figures of a whole test split, such as BLEU, which are no means over its examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from bench.measure.result import Draws
from bench.records.result import Translations
from tasks.outcomes import Outcomes
from tasks.translating.scores import CorpusOutcomes

SHOWN = 5  # test examples whose translations are kept


def signatures_of(draws: Draws) -> dict[str, str]:
    """How each such metric was computed; empty where quality is a mean over examples."""
    return {name: text for each in _corpus_outcomes(draws)[:1] for name, text in each[0].signatures.items()}


def statistics_of(draws: Draws) -> dict[str, np.ndarray]:
    """``statistics.METRIC``: numbers of each example that a metric is computed from, (draws, levels, N, numbers)."""
    found = _corpus_outcomes(draws)
    return {
        f"statistics.{name}": torch.stack(
            [torch.stack([level.statistics[name] for level in levels]) for levels in found]
        ).numpy()
        for name in (found[0][0].statistics if found else ())
    }


def translations_of(draws: Draws, removed: Sequence[int], units: int) -> list[Translations]:
    """The first ``SHOWN`` test examples with what the unpruned model and the nearest to half of it make of them."""
    found = _corpus_outcomes(draws)
    if not found:
        return []
    first = found[0]
    levels = sorted({0, min(range(len(removed)), key=lambda level: abs(removed[level] - units / 2))})
    return [
        Translations(
            source=source,
            reference=reference,
            translations={removed[level]: first[level].texts[place] for level in levels},
        )
        for place, (source, reference) in enumerate(zip(first[0].sources, first[0].references, strict=True))
        if place < SHOWN
    ]


def _corpus_outcomes(draws: Draws) -> list[list[CorpusOutcomes]]:
    """Outcomes by draw and level; empty where they are of another kind."""
    outcomes: list[list[Outcomes]] = [[level.evaluation.outcomes for level in levels] for _, levels in draws]
    found = [[each for each in levels if isinstance(each, CorpusOutcomes)] for levels in outcomes]
    return found if all(found) else []
