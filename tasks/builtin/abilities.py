"""Four abilities of a language model that only attention gives, in small generated documents with four endings each.

- ``copy``: a row of words is said again; the next word stands at a fixed distance before.
- ``roles``: an event, active or passive; who did it, whom was it done to, where to, with whom?
- ``recall``: four rooms, each with its colour; which is that of one of them?
- ``agreement``: a reflexive pronoun agrees with the subject, not with nouns in the phrases before and after it.

No ending can be left out without reading in order: the four words, or for ``agreement`` a noun of each of the four
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
# What takes longer to learn is had more often in training; elsewhere there is as much of each.
_OTHERS = ("recall", "roles", "copy", "recall", "roles")
TRAINING = tuple(ability for other in _OTHERS for ability in ("agreement", other))
RECIPE = Recipe(learning_rate=3e-3, max_steps=700, max_length=22, target=0.99)

WORDS: tuple[str, ...] = ("apple", "bread", "chair", "door", "engine", "flower", "glass", "hammer", "island", "jacket")
WORDS += ("kettle", "ladder", "mirror", "needle", "orange", "pencil", "quilt", "river", "stone", "table")
ASKED = 3  # questions a document
ROW = 7  # words; the second to the fourth can be asked for, so that four are left to choose from
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
    """A text, which of its words follow from those before, and the one of these that a test asks for."""

    ability: str
    words: tuple[str, ...]
    answers: tuple[int, ...]  # places of the words that follow from those before
    asked: int  # one of these places
    endings: tuple[str, ...]  # four words for that place, one of them right

    @property
    def text(self) -> str:
        """The whole document."""
        return " ".join(self.words)

    @property
    def context(self) -> str:
        """All before the word that is asked for."""
        return " ".join(self.words[: self.asked])

    @property
    def statement(self) -> str:
        """The part of the context that is told, not asked."""
        told = re.split(" again | \\? ", self.context + " ")[0]
        return told.strip()

    @property
    def label(self) -> int:
        """Which of the endings is right."""
        return self.endings.index(self.words[self.asked])


Draft = tuple[list[str], list[int], int, Sequence[str]]  # words, answers, asked; endings, in no particular order
Question = tuple[str, str]  # the word that asks, and the answer


def _copy(rng: random.Random) -> Draft:
    row = rng.sample(WORDS, ROW)
    start, asked = ROW + 2, rng.randint(1, ROW - 4)
    answers = list(range(start + 1, start + ROW))
    return ["row", *row, "again", *row], answers, start + asked, [row[asked], *rng.sample(row[asked + 1 :], 3)]


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
    """Some of ``questions``, each followed by its answer, after ``words``; a test asks the first of them.

    One may be asked again: were they all different, each answer would narrow down the next without any reading.
    """
    asked = rng.choices(questions, k=ASKED)
    place = len(words) + 2
    answers = list(range(place, place + 2 * ASKED, 2))
    return [*words, "?", *(word for question in asked for word in question)], answers, place, endings


def _agreement(rng: random.Random) -> Draft:
    pronouns = rng.sample(tuple(NOUNS), 4)  # the first is that of the subject
    subject, *others = (_noun_phrase(rng, rng.choice(NOUNS[pronoun])) for pronoun in pronouns)
    phrases = [[rng.choice(PREPOSITIONS), *other] for other in others]
    phrases.insert(rng.randrange(4), subject)
    words = [word for phrase in phrases for word in phrase] + [rng.choice(ACTS)]
    return [*words, pronouns[0]], [len(words)], len(words), pronouns


def _noun_phrase(rng: random.Random, noun: str) -> list[str]:
    """With an adjective or none, so that a place in the sentence tells nothing."""
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
    """Documents of each split, drawn from a fixed seed; nothing told in one is told in another, nor twice in test."""
    rng = random.Random(31)
    held_out: set[str] = set()
    splits: dict[str, tuple[Document, ...]] = {}
    for split in ("test", "validation", "train"):
        turns = TRAINING if split == "train" else tuple(ABILITIES)
        drawn: list[Document] = []
        for _ in range(20 * SIZES[split]):  # draws are rarely repeats: the cap only rules out an endless loop
            if len(drawn) == SIZES[split]:
                break
            document = _draw(rng, turns[len(drawn) % len(turns)])
            if document.statement in held_out:
                continue
            if split != "train":  # there, repeats do no harm
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
    words, answers, asked, endings = ABILITIES[ability](rng)
    return Document(ability, tuple(words), tuple(answers), asked, tuple(rng.sample(endings, len(endings))))
