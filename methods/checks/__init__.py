"""Rules that every method must keep, checked on tiny random models by ``headbench check`` and by pytest.

In: a registered method with its options. Out: one case per rule and tiny model, which passes, fails or does not apply.
Nothing here knows a particular method, a task or a record.
"""

from methods.checks import results, robustness, side_effects, training  # noqa: F401  each registers its checks
from methods.checks.case import CHECKS, Case, Check, ConfiguredMethod, Failure, NotApplicable, cases
from methods.checks.tiny_models import TINY_MODELS, TinyModel

__all__ = [
    "CHECKS",
    "TINY_MODELS",
    "Case",
    "Check",
    "ConfiguredMethod",
    "Failure",
    "NotApplicable",
    "TinyModel",
    "cases",
]
