"""Language identification."""

from tasks.builtin import languages
from tasks.contract import task
from tasks.text_classification import TextClassification


@task("language_id")
class LanguageIdentification(TextClassification):
    """Which language a text is in; built in: names from CLDR in 20 languages, which is real text."""

    built_in = staticmethod(languages.dataset)
    recipe = languages.RECIPE
    pieces = languages.PIECES
