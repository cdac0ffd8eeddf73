"""The task ``reviews``: sentiment of film reviews, read from ``reviews.tsv`` beside this file."""

from pathlib import Path

from tasks.contract import task
from tasks.data.dataset import Dataset
from tasks.data.splits import disjoint
from tasks.errors import TaskError
from tasks.text_classification import TextClassification


@task("reviews")
class Reviews(TextClassification):
    """Film reviews, negative or positive; built in: 200 of them."""

    labels = ("negative", "positive")

    @staticmethod
    def built_in() -> Dataset:
        """Three disjoint splits of the file, each of whose lines is a label, a tab and a text."""
        file = Path(__file__).with_name("reviews.tsv")
        rows = []
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            label, tab, text = line.partition("\t")
            if not tab:
                raise TaskError(f"{file}: line {number}: expected a label, a tab and a text")
            rows.append(((text,), label))
        return disjoint("film-reviews", {"all": rows}, Reviews.labels)
