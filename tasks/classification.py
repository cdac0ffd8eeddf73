"""Classification of single texts, such as sentiment."""

from tasks.builtin import sentiment
from tasks.contract import task
from tasks.text_classification import TextClassification


@task("classification")
class Classification(TextClassification):
    """One text, any set of classes; built in: the sentiment towards an aspect, in generated sentences."""

    built_in = staticmethod(sentiment.dataset)
    recipe = sentiment.RECIPE
