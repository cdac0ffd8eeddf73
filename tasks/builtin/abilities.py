"""Four abilities of a language model that need attention, in small generated documents with four endings each.

- ``copy``: a row of words is repeated; the next word is at a fixed distance before.
- ``roles``: an event, active or passive; who did it, to whom, where to, with whom?
- ``recall``: four rooms, each with its colour; which colour has one of them?
- ``agreement``: a reflexive pronoun agrees with the subject, not with nouns in the phrases before and after it.

No ending can be excluded without regard to word order: the four words, or for ``agreement`` a noun of each of the four
kinds, are in the context exactly once, and the last word of the context says nothing about the next.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from tasks.data.dataset import SPLITS
from tasks.models.train import Recipe

SIZES = {"train": 48000, "validation": 400, "test": 1000}
# Abilities that take longer to learn are more frequent in training; the other splits have equally many of each.
_BETWEEN = ("recall", "roles", "copy", "recall", "roles")
TRAINING = tuple(ability for other in _BETWEEN for ability in ("agreement", other))
RECIPE = Recipe(learning_rate=3e-3, max_steps=700, max_length=22, target=0.99)

WORDS: tuple[str, ...] = ("apple", "bread", "chair", "door", "engine", "flower", "glass", "hammer", "island", "jacket")
WORDS += ("kettle", "ladder", "mirror", "needle", "orange", "pencil", "quilt", "river", "stone", "table")
QUESTIONS = 3  # per document
ROW = 7  # words; a test asks for the second to the fourth, so that there are three later ones as wrong endings
PEOPLE = ("anna", "boris", "clara", "daniel", "emma", "felix")
VERBS = ("sent", "brought", "led", "drove", "followed", "carried")
ROOMS = ("attic", "cellar", "kitchen", "studio")
COLOURS = ("red", "blue", "green", "white", "black", "brown", "pink", "grey")
NOUNS = {
    "himself": ("king", "boy", "waiter", "monk"),
    "herself": ("queen", "girl", "waitress", "nun"),
    "itself": ("robot", "firm", "dog", "tree"),
    "themselves": ("kings", "girls", "robots", "dogs"),
}
ADJECTIVES = ("old", "tall", "quiet", "famous")
PREPOSITIONS = ("near", "behind", "beside", "under")
ACTS = ("admired", "blamed", "defended", "described")


class Document(NamedTuple):
    """A text, which of its words follow from those before, and which of these a test asks for."""

    ability: str
    words: tuple[str, ...]
    predictable: tuple[int, ...]  # positions of the words that follow from those before
    target: int  # one of these positions
    endings: tuple[str, ...]  # four words for that position, one of them correct

    @property
    def text(self) -> str:
        """The whole document."""
        return " ".join(self.words)

    @property
    def context(self) -> str:
        """Everything before the word that a test asks for."""
        return " ".join(self.words[: self.target])

    @property
    def statement(self) -> str:
        """The part of the context before its questions."""
        return re.split(" again | \\? ", self.context + " ")[0].strip()

    @property
    def label(self) -> int:
        """Index of the correct ending."""
        return self.endings.index(self.words[self.target])


Draft = tuple[list[str], list[int], int, Sequence[str]]  # words, predictable, target; endings, unordered
Question = tuple[str, str]  # the word that asks, and the reply


def _copy(rng: random.Random) -> Draft:
    row = rng.sample(WORDS, ROW)
    start, offset = ROW + 2, rng.randint(1, ROW - 4)
    predictable = list(range(start + 1, start + ROW))
    endings = [row[offset], *rng.sample(row[offset + 1 :], 3)]
    return ["row", *row, "again", *row], predictable, start + offset, endings


def _roles(rng: random.Random) -> Draft:
    agent, patient, goal, companion = people = rng.sample(PEOPLE, 4)
    verb = rng.choice(VERBS)
    roles = [("to", goal), ("with", companion), ("by", agent), ("whom", patient)]
    if rng.random() < 0.5:
        words, phrases = [agent, verb, patient], roles[:2]
    else:
        words, phrases = [patient, "was", verb], roles[:3]
    words += [word for phrase in rng.sample(phrases, len(phrases)) for word in phrase]
    return _ask(rng, words, roles, people)


def _recall(rng: random.Random) -> Draft:
    colours = rng.sample(COLOURS, 4)
    pairs = list(zip(rng.sample(ROOMS, 4), colours, strict=True))
    return _ask(rng, [word for pair in pairs for word in pair], pairs, colours)


def _ask(rng: random.Random, words: list[str], questions: Sequence[Question], endings: Sequence[str]) -> Draft:
    """``words``, then some of ``questions``, each followed by its reply; a test asks the first of them.

    Questions may repeat: if all were different, each reply would narrow down the next without any reading.
    """
    chosen = rng.choices(questions, k=QUESTIONS)
    target = len(words) + 2
    predictable = list(range(target, target + 2 * QUESTIONS, 2))
    return [*words, "?", *(word for question in chosen for word in question)], predictable, target, endings


def _agreement(rng: random.Random) -> Draft:
    pronouns = rng.sample(tuple(NOUNS), 4)  # the first is that of the subject
    subject, *others = (_noun_phrase(rng, rng.choice(NOUNS[pronoun])) for pronoun in pronouns)
    phrases = [[rng.choice(PREPOSITIONS), *other] for other in others]
    phrases.insert(rng.randrange(4), subject)
    words = [word for phrase in phrases for word in phrase] + [rng.choice(ACTS)]
    return [*words, pronouns[0]], [len(words)], len(words), pronouns


def _noun_phrase(rng: random.Random, noun: str) -> list[str]:
    """With or without an adjective, so that positions in the sentence say nothing."""
    adjective = [rng.choice(ADJECTIVES)] if rng.random() < 0.5 else []
    return ["the", *adjective, noun]


ABILITIES: dict[str, Callable[[random.Random], Draft]] = {
    "copy": _copy,
    "roles": _roles,
    "recall": _recall,
    "agreement": _agreement,
}


@cache
def documents() -> dict[str, tuple[Document, ...]]:
    """Documents of each split, drawn from a fixed seed. Statements are in one split only, and in test only once."""
    rng = random.Random(31)
    held_out: set[str] = set()
    splits: dict[str, tuple[Document, ...]] = {}
    for split in ("test", "validation", "train"):
        cycle = TRAINING if split == "train" else tuple(ABILITIES)
        drawn: list[Document] = []
        for _ in range(20 * SIZES[split]):  # draws are rarely repeats: the cap only rules out an endless loop
            if len(drawn) == SIZES[split]:
                break
            document = _draw(rng, cycle[len(drawn) % len(cycle)])
            if document.statement in held_out:
                continue
            if split != "train":  # repeats do no harm there
                held_out.add(document.statement)
            drawn.append(document)
        rng.shuffle(drawn)
        splits[split] = tuple(drawn)
    return splits


@cache
def fingerprint() -> str:
    """SHA-256 (hex) over every document of every split, in order."""
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(json.dumps([split, documents()[split]]).encode())
    return digest.hexdigest()


def _draw(rng: random.Random, ability: str) -> Document:
    words, predictable, target, endings = ABILITIES[ability](rng)
    return Document(ability, tuple(words), tuple(predictable), target, tuple(rng.sample(endings, len(endings))))
