"""Language identification."""

from tasks.builtin import languages
from tasks.contract import task
from tasks.text import TextClassification
from tasks.train import Recipe


@task("language_id")
class LanguageIdentification(TextClassification):
    """Which language a text is in; built in: names from CLDR in 20 languages, which is real text."""

    built_in = staticmethod(languages.dataset)
    recipe = Recipe(learning_rate=2e-3, max_steps=700, target=0.97)
    pieces = 4000
