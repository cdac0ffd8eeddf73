"""The task ``reviews``: sentiment of film reviews, read from ``reviews.tsv`` beside this file."""

from pathlib import Path

from tasks.contract import task
from tasks.data.dataset import Dataset
from tasks.data.splits import disjoint
from tasks.text_classification import TextClassification


@task("reviews")
class Reviews(TextClassification):
    """Film reviews, negative or positive; built in: 200 of them."""

    labels = ("negative", "positive")

    @staticmethod
    def built_in() -> Dataset:
        """Three disjoint splits of the file, each of whose lines is a label, a tab and a text."""
        lines = Path(__file__).with_name("reviews.tsv").read_text(encoding="utf-8").splitlines()
        rows = [((text,), label) for label, text in (line.split("\t") for line in lines)]
        return disjoint("film-reviews", {"all": rows}, Reviews.labels)
