"""Classification of single texts, such as sentiment."""

from tasks.builtin import sentiment
from tasks.contract import task
from tasks.text import TextClassification
from tasks.train import Recipe


@task("classification")
class Classification(TextClassification):
    """One text, any set of classes; built in: the sentiment towards an aspect, in generated sentences."""

    built_in = staticmethod(sentiment.dataset)
    recipe = Recipe(learning_rate=1e-3, max_steps=1500, target=0.98)
