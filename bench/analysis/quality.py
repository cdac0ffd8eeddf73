"""What the quality of a record is, and whether an unpruned model has any above chance."""

from __future__ import annotations

from math import sqrt

from bench.records.schema import FinishedRecord, Result

ACCURACY, BYTE_PROBABILITY = "accuracy", "probability of a byte"
POINTS = 100  # per unit of quality
CHANCE_ERRORS = 2  # standard errors by which a model must exceed chance for its quality to be scaled


def quality_name(record: FinishedRecord) -> str:
    """What quality is: accuracy or, where a language model only scores texts, the probability of a byte."""
    return ACCURACY if record.result.parts else BYTE_PROBABILITY


def is_above_chance(result: Result) -> bool:
    """Whether the unpruned model exceeds chance by more than ``CHANCE_ERRORS`` standard errors.

    The error is the binomial one of guessing, of the mean over sub-tasks if there are several. It is 0 where texts are
    scored, as no answer is right or wrong.
    """
    chance, sizes = result.chance, result.parts.values()
    error = sqrt(chance * (1 - chance) * sum(1 / size for size in sizes)) / len(sizes) if sizes else 0.0
    return result.quality[0][0] - chance > CHANCE_ERRORS * error
