"""How often methods send the calibration set, the training split and the test split through a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.run.estimates.shapes import Shape
from bench.suites.parse import MethodSpec
from methods import METHODS
from methods.contract.method import RECOVER
from methods.heads import HeadMap
from methods.recovery.recover import HELD_OUT

# Passes over the calibration set, forward and backward, of methods that score units once.
ONCE = {
    **dict.fromkeys(("magnitude", "none", "random"), (0, 0)),
    **dict.fromkeys(("ae", "amp", "flap", "minitron", "obs", "obs-compensated", "wanda-sp"), (1, 0)),
    **dict.fromkeys(("fisher", "fisher-rearranged", "gnorm", "kwon", "llm-pruner", "michel", "tis"), (1, 1)),
    **dict.fromkeys(("cahp", "hies"), (2, 1)),
}
SHARED = 2  # levels at which all methods have the same model: with all units, and with none


class Calibration(NamedTuple):
    """Passes over the calibration set, with parts of it as fractions; the most there can be if they are not exact."""

    forward: float
    backward: float
    exact: bool = True

    def __add__(self, other: tuple[Any, ...]) -> Calibration:
        forward, backward, exact = other
        return Calibration(self.forward + forward, self.backward + backward, self.exact and exact)


def over_calibration(spec: MethodSpec, shape: Shape, removed: Sequence[int]) -> Calibration | None:
    """What choosing takes at all levels; None for a method that is not known here, or if recovery may go either way.

    removed: numbers of units removed, by level. What a joint method trains on comes on top: see ``trainings``.
    """
    method, options, heads = METHODS[spec.name], spec.options, shape.heads
    if method.trains:
        choice = options.get("choice", "none")  # the score that it chooses by before; others choose as they train
        # amp-recovered with choice=inverse takes AMP's score from its other end.
        return Calibration(*ONCE.get("amp" if choice == "inverse" else choice, (0, 0)))
    total = Calibration(0, 0)
    step = options.get("recompute") or len(heads)
    for left in range(len(heads), len(heads.never_empty), -step):
        if (once := _scoring(method.base, options, heads, left)) is None:
            return None
        total += once
    levels = sum(count > 0 for count in removed) * int(options.get("draws", 1))
    if spec.name == "none":  # from which nothing is removed, and so nothing recovered
        return total
    if (how := options.get(RECOVER.name)) == "bias":
        total += Calibration(levels, 0)
    elif how:
        if shape.by_blocks is None:
            return None
        walk = 2 if shape.by_blocks else 2 * len(heads.sites)  # fewer where the lowest modules lose nothing
        # On texts held out, three models are compared, unless no layer has new weights.
        compared = 0.0 if how == "scale-damped" else 3 / HELD_OUT
        total += Calibration(levels * (walk + compared), 0, exact=False)
    return total


def _scoring(base: str, options: dict[str, Any], heads: HeadMap, left: int) -> Calibration | None:
    """One scoring of the ``left`` units that are there."""
    calls = sum(site.calls for site in heads.sites if site.num_heads)
    if base == "kwon" and options["parts"] == "both":
        return Calibration(2, 2)
    if base == "leave-one-out":
        return Calibration(1 + left, 0)
    if base == "shapley":  # fewer where the values are certain enough, or where the loss is all lost early
        return Calibration(2 + (left - 1) * (options["permutations"] // 2 * 2), 0, exact=False)
    if base == "attr":  # fewer where a layer has no unit left
        return Calibration(calls * options["steps"] + 1, calls * options["steps"], exact=left == len(heads))
    if base == "path":
        rounds = len({left * (number + 1) // options["rounds"] for number in range(options["rounds"])} - {0})
        passes = rounds * options["points"] * (len(heads.sites) if options["along"] == "layer" else 1)
        return Calibration(passes, passes)
    return Calibration(*ONCE[base]) if base in ONCE else None


def trainings(spec: MethodSpec, removed: Sequence[int], units: int) -> int:
    """The most trainings that a joint method takes for all levels."""
    method, options = METHODS[spec.name], spec.options
    if not method.trains:
        return 0
    if method.base == "voita":
        return int(options["most"])
    # Without units, there are only weights to train.
    return sum(0 < count < (units + 1 if trains_weights(spec) else units) for count in removed)


def trains_weights(spec: MethodSpec) -> bool:
    """Whether a method trains the weights of a model, and not gates or adapters alone."""
    method = METHODS[spec.name]
    return method.trains and method.base != "amp-recovered" and not spec.options.get("frozen", False)


def over_test(spec: MethodSpec, removed: Sequence[int]) -> int:
    """The most evaluations that are a cell's own: not those with all units and with none, which all methods share."""
    method, options = METHODS[spec.name], spec.options
    if spec.name == "none":
        return 0
    draws, neurons = int(options.get("draws", 1)), options.get("parts") in ("both", "neurons")
    between = draws * (len(removed) - SHARED)
    if method.shape == "joint":
        return between + 1
    if RECOVER.name in options:  # without heads, a bias may have been recovered
        return between + draws + neurons
    return between + SHARED * neurons
