"""Numbers in the documents that are answers of ``headbench compare``, from the committed records.

    python -m docs.studies.answers [--check]

puts them in, or only says where they differ. ``answers.toml`` has the questions.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from bench.analysis.comparing.comparison import compare
from bench.analysis.run_results import RunResults, read_results

ROOT = Path(__file__).parents[2]
QUESTIONS = Path(__file__).with_suffix(".toml")
NUMBER = r"-?\d+\.\d(?!\d)"
INTERVAL = re.compile(
    rf"\((?:95 % interval )?(?:(?P<inside>{NUMBER})[^()]*;\s+)?(?P<low>{NUMBER})\s+to\s+(?P<high>{NUMBER})\)"
)
ALONE = re.compile(rf"(?<![\d.]){NUMBER}")
ROW = re.compile(r"^\|.*$", re.MULTILINE)
ALPHA = 0.05


@dataclass(frozen=True)
class Question:
    """How much more the method ``a`` keeps than ``b`` in the records of ``folder``.

    ``a`` and ``b`` may be several, as ``A|B``: the answer is the least or most, by ``extreme``, of all pairs.
    """

    folder: str
    a: str
    b: str
    shown: bool = True
    alone: bool = False
    extreme: str = ""
    up_to: float | None = None
    tasks: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Question:
        """The question that a line of the file asks. Raises ValueError for one that asks none."""
        folder, a, b, *flags = text.split()
        given = dict(flag.split("=") for flag in flags if "=" in flag)
        if unknown := [flag for flag in flags if not re.fullmatch(r"\?|alone|least|most|(to|tasks)=.+", flag)]:
            raise ValueError(f"{text!r}: {unknown[0]} is no flag")
        up_to = float(given["to"]) if "to" in given else None
        tasks = tuple(given["tasks"].split(",")) if "tasks" in given else ()
        extreme = next((flag for flag in flags if flag in ("least", "most")), "")
        return cls(folder, a, b, "?" not in flags, bool(extreme) or "alone" in flags, extreme, up_to, tasks)


@dataclass(frozen=True)
class Answer:
    """The difference in points, with its interval."""

    difference: float
    low: float
    high: float
    shown: bool

    @property
    def figures(self) -> tuple[str, str, str]:
        """As they stand in the text."""
        low, middle, high = (f"{value:.1f}".replace("-0.0", "0.0") for value in (self.low, self.difference, self.high))
        return middle, low, high


@cache
def results(folder: str) -> RunResults:
    """The records of results/FOLDER."""
    return read_results(ROOT / "results" / folder)


def answer(question: Question) -> Answer:
    """What ``headbench compare A B results/FOLDER`` says."""
    pairs = list(product(question.a.split("|"), question.b.split("|")))
    if len(pairs) > 1:
        found = [answer(replace(question, a=a, b=b)) for a, b in pairs]
        chosen = (min if question.extreme == "least" else max)(found, key=lambda each: each.difference)
        return replace(chosen, shown=(all if question.shown else any)(each.shown for each in found))
    found = compare(results(question.folder), question.a, question.b, question.tasks, up_to=question.up_to).overall
    assert found.interval is not None and found.p is not None  # six seeds or more
    return Answer(found.mean, *found.interval, found.p < ALPHA)


@dataclass(frozen=True)
class Place:
    """A number in a section, of which ``span`` is (begin, end), and the spans of its interval, if that stands there."""

    question: Question
    number: tuple[int, int]
    interval: tuple[tuple[int, int], tuple[int, int]] | None


def places(text: str, questions: list[str]) -> Iterator[Place]:
    """Where the answers to ``questions`` stand in ``text``, but for its tables. Raises ValueError for more or fewer."""
    text = ROW.sub(lambda row: " " * len(row[0]), text)
    end = 0
    for line in questions:
        question = Question.of(line)
        if question.alone:
            if not (found := ALONE.search(text, end)):
                raise ValueError(f"no number for {line!r}")
            yield Place(question, found.span(), None)
        else:
            if not (found := INTERVAL.search(text, end)):
                raise ValueError(f"no interval for {line!r}")
            before = [each.span() for each in ALONE.finditer(text, end, found.start())]
            if not found["inside"] and not before:
                raise ValueError(f"no number before the interval for {line!r}")
            number = found.span("inside") if found["inside"] else before[-1]
            yield Place(question, number, (found.span("low"), found.span("high")))
        end = found.end()
    if left := INTERVAL.search(text, end):
        raise ValueError(f"no question for {left.group()!r}")


def section(page: str, heading: str) -> tuple[int, int]:
    """Where the section below ``heading`` begins and ends in ``page``."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", page, re.MULTILINE)
    if not found:
        raise ValueError(f"no heading {heading!r}")
    following = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(page, found.end())
    return found.end(), following.start() if following else len(page)


def faults_of(question: Question, found: Answer, printed: bool) -> list[str]:
    """What a sentence with the answer says wrongly, whether or not the number is ``printed`` in it."""
    told = f"{question.folder}: {question.a} against {question.b}: {' '.join(found.figures)}"
    faults = []
    if found.shown != question.shown:
        faults.append(f"{told}: a difference is {'' if found.shown else 'not '}shown")
    if found.difference < -0.05 and (question.shown or printed):
        faults.append(f"{told}: less, and not more")
    return faults


def revised(page: str, asked: dict[str, Any], answers: Callable[[Question], Answer]) -> tuple[str, list[str]]:
    """``page`` with the answers of a section in it, and what is wrong with its sentences, a line each."""
    begin, end = section(page, asked["heading"])
    text, faults = page[begin:end], []
    for question in map(Question.of, asked.get("said", [])):
        faults += faults_of(question, answers(question), printed=False)
    for place in reversed(list(places(text, asked["questions"]))):
        found = answers(place.question)
        faults = faults_of(place.question, found, printed=True) + faults
        spans = [place.number, *(place.interval or ())]
        for span, figure in sorted(zip(spans, found.figures, strict=False), reverse=True):
            text = text[: span[0]] + figure + text[span[1] :]
    return page[:begin] + text + page[end:], faults


def all_asked(kind: str) -> list[dict[str, Any]]:
    """The entries of a kind in the file of questions: ``section`` or ``table``."""
    found: list[dict[str, Any]] = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))[kind]
    return found


def revise_pages(said: str | None, kind: str, revised: Callable[[str, dict[str, Any]], tuple[str, list[str]]]) -> int:
    """Revise the page of each entry of a kind, or check it: 1 if one differs, or a sentence does not fit."""
    parser = argparse.ArgumentParser(description=said)
    parser.add_argument("--check", action="store_true", help="only say what differs")
    check = parser.parse_args().check
    wrong = 0
    for asked in all_asked(kind):
        path = ROOT / asked["page"]
        before = path.read_text(encoding="utf-8")
        after, faults = revised(before, asked)
        if check:
            lines = zip(before.splitlines(), after.splitlines(), strict=True)
            faults += [f"- {one}\n  + {other}" for one, other in lines if one != other]
        else:
            path.write_text(after, encoding="utf-8")
        for fault in faults:
            print(f"{asked['page']}, {asked['heading']}: {fault}")
        wrong += len(faults)
    return min(wrong, 1)


def main() -> int:
    """Revise all pages, or check them."""
    return revise_pages(__doc__, "section", lambda page, asked: revised(page, asked, answer))


if __name__ == "__main__":
    sys.exit(main())
