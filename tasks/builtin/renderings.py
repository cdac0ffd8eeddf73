"""Translation on real text: dates, times, intervals, amounts and the like as English and Hungarian write them.

The renderings come from the Unicode CLDR, through Babel. A text is a list of one to three of them, in the same order in
both languages; within one, words change places ("Tuesday, March 5, 2024" is "2024. március 5., kedd"; "in 3 years" is
"3 év múlva"), a 12-hour clock becomes a 24-hour clock, and prepositions become endings. Each English rendering belongs
to one split, so every test text is made of dates and amounts that no other split has in that form.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from functools import cache, partial
from typing import Literal

from babel import dates, lists, numbers, units

from tasks.data.dataset import SPLITS, Dataset, Example

LANGUAGES = ("en", "hu")  # of the source, of the target
SIZES = {"train": 20000, "validation": 200, "test": 500}
RENDERED = {"train": 6000, "validation": 300, "test": 800}  # different things, such as one date
UNITS: tuple[str, ...] = ("length-kilometer", "length-meter", "length-centimeter", "length-mile", "length-inch")
UNITS += ("mass-kilogram", "mass-gram", "mass-tonne", "volume-liter", "volume-cubic-meter", "area-hectare")
UNITS += ("duration-minute", "duration-second", "energy-kilojoule", "temperature-celsius", "digital-megabyte")
SPEEDS = ("length-kilometer", "length-meter", "length-mile", "volume-liter", "mass-kilogram", "digital-megabyte")
CURRENCIES = ("USD", "EUR", "HUF", "GBP", "JPY", "CHF", "PLN", "INR", "BRL", "SEK", "CAD", "AUD")
SPANS = {  # seconds, and the most of them
    "year": (365.25 * 86400, 99),
    "month": (30.4375 * 86400, 10),
    "hour": (3600, 20),
    "minute": (60, 50),
}

LISTS: tuple[Literal["standard", "or"], ...] = ("standard", "or")  # joined by "and", or by "or"

Render = Callable[..., str | None]  # of something, in the language ``locale``


def _day(rng: random.Random) -> datetime.datetime:
    return datetime.datetime(1950, 1, 1) + datetime.timedelta(rng.randrange(36500))


def _date(rng: random.Random) -> Render:
    return partial(dates.format_date, _day(rng), rng.choice(("full", "full", "long")))


def _time(rng: random.Random) -> Render:
    return partial(dates.format_time, datetime.time(rng.randrange(24), rng.randrange(60)), "short")


def _interval(rng: random.Random) -> Render:
    begin = _day(rng).replace(day=rng.randint(1, 20))
    end = begin.replace(day=rng.randint(begin.day + 1, 28))
    return partial(dates.format_interval, begin, end, rng.choice(("yMMMd", "yMMMEd")))


def _quantity(rng: random.Random) -> Render:
    return partial(units.format_unit, rng.randint(2, 99), rng.choice(UNITS))


def _speed(rng: random.Random) -> Render:
    unit, per = rng.choice(SPEEDS), rng.choice(("duration-hour", "duration-second", "duration-minute"))
    return partial(units.format_compound_unit, rng.randint(2, 99), unit, denominator_unit=per)


def _price(rng: random.Random) -> Render:
    amount = rng.randint(200, 9999) / 100
    return partial(
        numbers.format_currency, amount, rng.choice(CURRENCIES), format_type="name", decimal_quantization=False
    )


def _relative(rng: random.Random) -> Render:
    seconds, number = rng.choice([(size, number) for size, most in SPANS.values() for number in range(2, most + 1)])
    span = datetime.timedelta(seconds=seconds * number * rng.choice((1, -1)))
    return partial(dates.format_timedelta, span, add_direction=True)


KINDS = (_date, _date, _time, _interval, _quantity, _speed, _price, _relative)


@cache
def renderings() -> dict[str, tuple[tuple[str, str], ...]]:
    """Renderings in both languages by split, drawn from a fixed seed: no two of the same English, in any split."""
    rng = random.Random(23)
    taken: set[str] = set()
    splits: dict[str, tuple[tuple[str, str], ...]] = {}
    for split in reversed(SPLITS):
        pool: list[tuple[str, str]] = []
        for _ in range(20 * RENDERED[split]):  # the cap only rules out an endless loop
            if len(pool) == RENDERED[split]:
                break
            render = rng.choice(KINDS)(rng)
            source, target = (_plain(render(locale=language) or "") for language in LANGUAGES)
            if source not in taken:
                taken.add(source)
                pool.append((source, target))
        splits[split] = tuple(pool)
    return splits


@cache
def dataset() -> Dataset:
    """Pairs of an English and a Hungarian text, drawn from a fixed seed; all have the label 0.

    The renderings, and with them the fingerprint, depend on the version of Babel.
    """
    rng = random.Random(29)
    splits: dict[str, tuple[Example, ...]] = {}
    for split, pool in renderings().items():
        drawn: dict[tuple[str, ...], None] = {}
        for _ in range(20 * SIZES[split]):  # draws are rarely repeats
            if len(drawn) == SIZES[split]:
                break
            chosen, style = rng.sample(pool, rng.choice((1, 2, 2, 3))), rng.choice(LISTS)
            texts = (
                lists.format_list([each[side] for each in chosen], style, locale=language)
                for side, language in enumerate(LANGUAGES)
            )
            drawn[tuple(texts)] = None
        splits[split] = tuple(Example(texts, 0) for texts in drawn)
    return Dataset("cldr-renderings", ("text",), *(splits[split] for split in SPLITS))


def _plain(text: str) -> str:
    """``text`` with a plain space for each of the many that CLDR has."""
    return " ".join(text.split())
