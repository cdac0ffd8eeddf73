"""Aspect-based sentiment in a small grammar: is one aspect of a stay praised or criticized, and how strongly?

"food : soup was never very good but clerk was fairly pleasant" asks for the food. The clause about it must be
found by its noun, and its adjective read together with negation and degree; most texts have a second clause of the
opposite polarity, so that the words without their order say little.
"""

from __future__ import annotations

import random

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.models.train import Recipe

LABELS = ("strongly negative", "mildly negative", "mildly positive", "strongly positive", "not mentioned")
NOT_MENTIONED = LABELS.index("not mentioned")
SIZES = {"train": 20000, "validation": 500, "test": 1000}
RECIPE = Recipe(learning_rate=1e-3, max_steps=1200, max_length=24, target=0.985)

NOUNS = {"food": ("soup", "bread"), "staff": ("waiter", "clerk"), "room": ("bed", "shower")}
ADJECTIVES = {False: ("awful", "bad", "poor", "nasty"), True: ("good", "lovely", "excellent", "pleasant")}
DEGREES = {False: ("slightly", "somewhat", "fairly"), True: ("very", "extremely", "truly")}  # True: strong
NEGATIONS = ("not", "never")
CONNECTIVES = ("but", "yet", "while", "and")
TWO_CLAUSES, OPPOSITE, NEGATED = 0.8, 0.95, 0.3  # shares of texts, of texts with two clauses, of clauses


def dataset() -> Dataset:
    """Single texts that start with an aspect, equally many of each label, drawn from a fixed seed."""
    rng = random.Random(5)
    held_out: set[str] = set()
    splits: dict[str, tuple[Example, ...]] = {}
    for split in ("test", "validation", "train"):
        examples: list[Example] = []
        for _ in range(20 * SIZES[split]):  # few draws are rejected: the cap only rules out an endless loop
            if len(examples) == SIZES[split]:
                break
            label = len(examples) % len(LABELS)
            text = _text(rng, label)
            if text in held_out:
                continue
            if split != "train":  # repeats stay there: otherwise short texts would run out, and be rarer than in test
                held_out.add(text)
            examples.append(Example((text,), label))
        rng.shuffle(examples)
        splits[split] = tuple(examples)
    return Dataset("aspect-sentiment", LABELS, *(splits[split] for split in SPLITS))


def _text(rng: random.Random, label: int) -> str:
    aspect, first, second = rng.sample(tuple(NOUNS), 3)  # the clauses are about the others, unless it is mentioned
    if label == NOT_MENTIONED:
        positive, strong = rng.random() < 0.5, rng.random() < 0.5
    else:
        first = aspect
        positive, strong = label >= 2, label in (0, 3)
    clauses = [_clause(rng, first, positive, strong)]
    if rng.random() < TWO_CLAUSES:
        other_positive = not positive if rng.random() < OPPOSITE else positive
        clauses.append(_clause(rng, second, other_positive, rng.random() < 0.5))
        rng.shuffle(clauses)
    return f"{aspect} : " + f" {rng.choice(CONNECTIVES)} ".join(clauses)


def _clause(rng: random.Random, aspect: str, positive: bool, strong: bool) -> str:
    """A clause of the given polarity; if it is negated, its adjective has the other one."""
    words = [rng.choice(NOUNS[aspect]), "was"]
    negated = rng.random() < NEGATED
    if negated:
        words.append(rng.choice(NEGATIONS))
    words += [rng.choice(DEGREES[strong]), rng.choice(ADJECTIVES[positive != negated])]
    return " ".join(words)
