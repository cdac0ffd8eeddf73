"""Natural language inference in a small grammar: who did what to whom, and which kinds of things have a property.

Half of the pairs describe an event in both voices, with or without its roles swapped or one side negated: "anna thanked
boris" entails "boris was thanked by anna" and says nothing about "anna was thanked by boris". The other half combine
quantifiers with nouns and their hypernyms: "every bird is old" entails "every owl is old". The words of a pair, or of
the hypothesis alone, say little about the label; their order and their match across the two texts decide it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.models.train import Recipe

LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
SIZES = {"train": 9000, "validation": 600, "test": 1200}
RECIPE = Recipe(learning_rate=1e-3, max_steps=900, max_length=24, target=0.98)

PEOPLE = ("anna", "boris", "clara", "daniel", "emma", "felix")
VERBS: tuple[str, ...] = ("thanked", "helped", "hired", "praised", "blamed", "warned", "called", "visited")
VERBS += ("trusted", "followed", "invited", "taught", "paid", "missed", "met", "saved")
KINDS = {
    "bird": ("owl", "crow", "swan", "finch"),
    "fish": ("trout", "salmon", "eel", "carp"),
    "tree": ("oak", "pine", "birch", "elm"),
    "tool": ("hammer", "saw", "drill", "chisel"),
    "fruit": ("apple", "pear", "plum", "cherry"),
    "boat": ("ferry", "canoe", "yacht", "barge"),
}
ADJECTIVES = ("old", "big", "wet", "brown", "rare", "clean", "cold", "light", "heavy", "cheap", "fresh", "small")
# How many of a non-empty group have the property.
NOT_ANY, IN_PART, ALL = range(3)
QUANTIFIERS: dict[str, Callable[[int], bool]] = {
    "every": lambda share: share == ALL,
    "some": lambda share: share != NOT_ANY,
    "no": lambda share: share == NOT_ANY,
    "not every": lambda share: share != ALL,
}


def dataset() -> Dataset:
    """Pairs of premise and hypothesis, equally many of each label, drawn from a fixed seed."""
    rng = random.Random(20)
    patterns = patterns_by_label()
    seen: set[tuple[str, ...]] = set()
    splits: dict[str, tuple[Example, ...]] = {}
    for split in ("test", "validation", "train"):
        examples: list[Example] = []
        for _ in range(20 * SIZES[split]):  # draws are rarely repeats: the cap only rules out an endless loop
            label = len(examples) % len(LABELS)
            roles = len(examples) // len(LABELS) % 2
            texts = _roles(rng, label) if roles else _quantifiers(rng, patterns[label])
            if texts not in seen:
                seen.add(texts)
                examples.append(Example(texts, label))
            if len(examples) == SIZES[split]:
                break
        rng.shuffle(examples)
        splits[split] = tuple(examples)
    return Dataset("grammar-nli", LABELS, *(splits[split] for split in SPLITS))


def _roles(rng: random.Random, label: int) -> tuple[str, str]:
    """An event, and the same event or the one with its roles swapped, in the other voice."""
    agent, patient = rng.sample(PEOPLE, 2)
    verb = rng.choice(VERBS)
    negated, active = rng.random() < 0.5, rng.random() < 0.5
    premise = _event(agent, verb, patient, negated, active)
    if label == NEUTRAL:
        return premise, _event(patient, verb, agent, rng.random() < 0.5, not active)
    return premise, _event(agent, verb, patient, negated if label == ENTAILMENT else not negated, not active)


def _event(agent: str, verb: str, patient: str, negated: bool, active: bool) -> str:
    if active:
        return f"{agent} never {verb} {patient}" if negated else f"{agent} {verb} {patient}"
    return f"{patient} was not {verb} by {agent}" if negated else f"{patient} was {verb} by {agent}"


Pattern = tuple[str, str, bool]  # quantifiers of premise and hypothesis, and whether the premise has the hypernym


def _quantifiers(rng: random.Random, patterns: list[Pattern]) -> tuple[str, str]:
    first, second, narrows = rng.choice(patterns)
    hypernym = rng.choice(tuple(KINDS))
    hyponym = rng.choice(KINDS[hypernym])
    nouns = (hypernym, hyponym) if narrows else (hyponym, hypernym)
    adjective = rng.choice(ADJECTIVES)
    return f"{first} {nouns[0]} is {adjective}", f"{second} {nouns[1]} is {adjective}"


def patterns_by_label() -> dict[int, list[Pattern]]:
    """All patterns by their label, which is found by trying every state of the world rather than taken from a table."""
    patterns: dict[int, list[Pattern]] = {ENTAILMENT: [], NEUTRAL: [], CONTRADICTION: []}
    for first, second, narrows in itertools.product(QUANTIFIERS, QUANTIFIERS, (True, False)):
        outcomes = set()
        for narrow, rest in itertools.product((NOT_ANY, IN_PART, ALL), repeat=2):
            wide = narrow if narrow == rest else IN_PART  # the wider group is the narrower one and the rest
            premise, hypothesis = (wide, narrow) if narrows else (narrow, wide)
            if QUANTIFIERS[first](premise):
                outcomes.add(QUANTIFIERS[second](hypothesis))
        label = NEUTRAL if len(outcomes) == 2 else ENTAILMENT if outcomes == {True} else CONTRADICTION
        patterns[label].append((first, second, narrows))
    return patterns
