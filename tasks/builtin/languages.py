"""Language identification on real text: names of countries, currencies and the like in each language.

The names come from the Unicode CLDR, through Babel. A text is a few names of one language; each name has a
CLDR key (such as the currency CHF), and a key belongs to one split in all languages, so that no name and no translation
of it is in two of them. A bag of word pieces solves this task too: attention only pools what the pieces say.
"""

from __future__ import annotations

import random
from collections import Counter

from babel import Locale

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.models.train import Recipe

LABELS: tuple[str, ...] = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "it", "ja")
LABELS += ("nl", "pl", "pt", "ru", "sw", "th", "tr", "ur", "vi", "zh")
SIZES = {"train": 16000, "validation": 500, "test": 1000}
SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}  # of the keys
NAMES_PER_TEXT = 5  # with three, languages that borrow from each other are ambiguous
PIECES = 4000
# Fewer than one text in ten is longer than max_length, and is truncated.
RECIPE = Recipe(learning_rate=2e-3, max_steps=320, max_length=48, evaluate_every=40)

Key = tuple[str, str]  # kind and code, such as ("currencies", "CHF")


def dataset() -> Dataset:
    """Single texts of five lower-cased names, equally many of each language, drawn from a fixed seed.

    The names, and with them the fingerprint, depend on the version of Babel.
    """
    rng = random.Random(11)
    names = {label: _names(label) for label in LABELS}
    names = _distinctive(names)
    keys = sorted({key for of_language in names.values() for key in of_language})
    rng.shuffle(keys)
    splits: dict[str, tuple[Example, ...]] = {}
    start = 0.0
    taken: set[str] = set()
    for split, share in SHARES.items():
        inside = keys[round(start * len(keys)) : round((start + share) * len(keys))]
        start += share
        pools = [
            sorted({of_language[key] for key in inside if key in of_language} - taken) for of_language in names.values()
        ]
        taken.update(*pools)
        seen: set[tuple[str, ...]] = set()
        examples: list[Example] = []
        for _ in range(20 * SIZES[split]):
            if len(examples) == SIZES[split]:
                break
            label = len(examples) % len(LABELS)
            text = " , ".join(rng.sample(pools[label], NAMES_PER_TEXT))
            if (text,) not in seen:
                seen.add((text,))
                examples.append(Example((text,), label))
        rng.shuffle(examples)
        splits[split] = tuple(examples)
    return Dataset("cldr-names", LABELS, *(splits[split] for split in SPLITS))


def _names(language: str) -> dict[Key, str]:
    """Lower-cased display names in one language by their key."""
    locale = Locale.parse(language)
    names: dict[Key, str] = {}
    for kind in ("territories", "languages", "scripts", "currencies", "variants"):
        for code, name in getattr(locale, kind).items():
            names[kind, code] = name.lower()
    for code, lengths in locale.unit_display_names.items():
        if "long" in lengths:
            names["units", code] = lengths["long"].lower()
    return names


def _distinctive(names: dict[str, dict[Key, str]]) -> dict[str, dict[Key, str]]:
    """Names that identify a language: not used in another one, and not just the code."""
    languages_with = Counter(name for of_language in names.values() for name in set(of_language.values()))
    return {
        language: {
            key: name for key, name in of_language.items() if languages_with[name] == 1 and name != key[1].lower()
        }
        for language, of_language in names.items()
    }
