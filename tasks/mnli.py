"""Natural language inference: does the premise entail the hypothesis?"""

from tasks.builtin import inference
from tasks.contract import task
from tasks.text_classification import TextClassification


@task("mnli")
class NaturalLanguageInference(TextClassification):
    """Premise and hypothesis, three classes; built in: pairs from a small grammar (for MNLI itself give --data)."""

    columns = ("premise", "hypothesis")
    labels = ("entailment", "neutral", "contradiction")
    built_in = staticmethod(inference.dataset)
    recipe = inference.RECIPE
