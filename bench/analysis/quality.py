"""What the quality of a record is, and whether an unpruned model has any above chance."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import sqrt

from bench.records.result import Result
from bench.records.schema import FinishedRecord

ACCURACY, BYTE_PROBABILITY, BLEU = "accuracy", "probability of a byte", "BLEU"
IN_SHORT = {ACCURACY: "acc.", BYTE_PROBABILITY: "prob.", BLEU: "BLEU"}
POINTS = 100  # per unit of quality
CHANCE_ERRORS = 2  # standard errors by which a model must exceed chance for its quality to be scaled


def quality_name(record: FinishedRecord) -> str:
    """What quality is: accuracy; the probability of a byte where a language model only scores texts; BLEU."""
    return name_of_quality(bool(record.result.parts), is_of_corpus(record.result))


def quality_in_short(records: Iterable[FinishedRecord]) -> str:
    """The same for the heading of a column; ``quality`` where it is one for some records and another for others."""
    found = {IN_SHORT[quality_name(record)] for record in records}
    return found.pop() if len(found) == 1 else "quality"


def name_of_quality(answers: bool, of_corpus: bool) -> str:
    """The same, by whether examples are right or wrong, and whether quality is a figure of all of them together."""
    return BLEU if of_corpus else ACCURACY if answers else BYTE_PROBABILITY


def is_of_corpus(result: Result) -> bool:
    """Whether quality is a figure of the whole test split, and no mean over what is right or wrong."""
    return bool(result.signatures)


def is_above_chance(result: Result) -> bool:
    """Whether the unpruned model of a record is above chance."""
    return exceeds_chance(result.quality[0][0], result.chance, result.parts.values())


def exceeds_chance(quality: float, chance: float, sizes: Collection[int]) -> bool:
    """Whether ``quality`` exceeds ``chance`` by more than ``CHANCE_ERRORS`` standard errors.

    sizes: examples of each sub-task. The error is the binomial one of guessing, of the mean over sub-tasks if there are
    several. It is 0 where texts are scored, as no answer is right or wrong.
    """
    error = sqrt(chance * (1 - chance) * sum(1 / size for size in sizes)) / len(sizes) if sizes else 0.0
    return quality - chance > CHANCE_ERRORS * error
