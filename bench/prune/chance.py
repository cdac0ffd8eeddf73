"""A warning where the model to be pruned knows no more than a guess."""

from __future__ import annotations

from bench.analysis.quality import ACCURACY, CHANCE_ERRORS, exceeds_chance
from tasks.outcomes import Outcomes


def warning(before: Outcomes, chance: float, name: str) -> str:
    """A sentence where the unpruned model is no better than ``chance``, 0 to 1; empty where it is.

    name: of its quality.
    """
    if exceeds_chance(before.quality, chance, before.parts.values()):
        return ""
    alike = ", and numbers the classes alike" if name == ACCURACY else ""
    return (
        f"The unpruned model is not better than chance by {CHANCE_ERRORS} standard errors ({name} "
        f"{100 * before.quality:.1f} %, chance {100 * chance:.1f} %), so these figures do not show what pruning costs: "
        f"look whether the model was trained for such data{alike}."
    )
