"""The fields of what was removed and what that does to the model.

A level is a number of units removed. A draw is one of the removal orders of a method that is random by nature; other
methods have one draw.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.records.consistency import check_result, check_trace
from bench.records.fields import Count, Megabytes, Metric, Part, Share, Units


class Passes(Part):
    """Examples sent through the model: a cost free of noise."""

    forward: Count = Field(description="examples sent forward")
    backward: Count = Field(description="examples whose gradients were computed")

    @property
    def total(self) -> int:
        """Both together."""
        return self.forward + self.backward


class ModelTraining(BaseModel):
    """How the task's own model was trained; empty if the model was taken as it is. Adapters may add fields."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    steps: int | None = Field(None, description="optimizer steps")
    validation_accuracy: float | None = Field(None, description="accuracy on validation, 0 to 1")
    target: float | None = Field(None, description="accuracy on validation that the recipe aims for, 0 to 1")
    target_met: bool | None = Field(None, description="whether the target was reached; null if there is none")
    weights: str | None = Field(None, description="digest of the trained weights")


class Trace(Part):
    """A training in stretches: each value is a mean over the steps since the stretch before."""

    steps: list[int] = Field(description="last step of each stretch, from 1")
    loss: list[float] = Field(description="task loss of the training batches, without penalties")
    right: list[Share] = Field([], description="share of their examples classified rightly; empty without classes")
    open: list[Annotated[float, Field(ge=0)]] = Field(
        [], description="number of units with a gate of at least 0.01; empty without gates"
    )

    @model_validator(mode="after")
    def _check(self) -> Trace:
        check_trace(self)
        return self


class MethodTraining(Part):
    """What a joint method trained."""

    passes: Passes = Field(description="examples sent through the model in training, over all levels")
    reports: dict[Units, dict[str, float]] = Field(description="numbers that the method reports, by level")
    traces: dict[Units, Trace] = Field({}, description="the training on the way, by level; empty if not recorded")


class Translations(Part):
    """A test example and what models of the first draw make of it."""

    source: str
    reference: str
    translations: dict[Units, str] = Field(description="by number of units removed: none, and about half")


class Result(Part):
    """What was removed and what that does to the model: the same for the same key, machine and versions."""

    units: Units = Field(
        gt=0,
        description="units of the model: what can be removed one by one; of the kinds of attention in cell.asked.kinds "
        "alone, where that names some",
    )
    shape: list[Units] = Field([], description="units of each attention module that has these, (modules,)")
    attention: list[Literal["encoder", "decoder", "cross"]] = Field(
        [], description="kind of attention of each module, (modules,); empty where the model has one kind"
    )
    never_empty: list[Units] = Field(
        [],
        description="indices of the attention modules that cannot run without any head: one unit of each stays, also "
        "where as many as possible are removed, and is last in a removal order",
    )
    left_alone: dict[str, str] = Field(
        {},
        description="parts of a composite model, beside its text tower, whose attention is not understood, by path, "
        "and why: their heads are no units and stay",
    )
    removed: list[Units] = Field(
        min_length=2, description="units to be removed at each level, (levels,); `kept` or `orders` say what is removed"
    )
    orders: list[list[Units]] | None = Field(
        None, description="removal order of the units, (draws, units), first removed first; null for chosen masks"
    )
    ties: list[Units] | None = Field(
        None,
        description="removals, by draw, in whose place another unit of exactly the same importance could have gone: "
        "the one with the lower index did; null if there are no removal orders",
    )
    kept: list[list[Units]] | None = Field(
        None, description="units kept at each level, (levels, as many as are kept); null if there are removal orders"
    )
    neurons: bool = Field(description="whether neurons of feed-forward layers are removed too")
    calibration: Count | None = Field(
        None, description="examples in the calibration set: fewer than requested where the data has fewer"
    )
    quality: list[list[Share]] = Field(
        min_length=1,
        description="test quality, (draws, levels), 0 to 1: accuracy, averaged over sub-tasks; if texts are only "
        "scored, the probability of a byte; of translations, BLEU over the whole split",
    )
    signatures: dict[str, str] = Field(
        {},
        description="how figures of the whole test split are computed, by metric (bleu, chrf), as sacrebleu says it; "
        "empty where quality is a mean over examples",
    )
    parts: dict[str, Annotated[Count, Field(gt=0)]] = Field(
        description="test examples of each sub-task, in the order of the outcomes; empty if texts are only scored"
    )
    metrics: list[list[dict[str, Metric]]] = Field(
        min_length=1, description="metrics of the sub-tasks to eight digits, (draws, levels), by SUB-TASK/METRIC"
    )
    translations: list[Translations] = Field([], description="the first test examples; empty if nothing is translated")
    chance: Share = Field(
        description="quality of always predicting the most frequent label of the test split; for tasks of lm-eval with "
        "choices, of guessing among them; 1/256 for the probability of a byte, 0 for BLEU"
    )
    parameters: list[dict[str, Count]] = Field(
        description="parameters by module at each level, (levels,), of the first draw; 'model' is the whole model"
    )
    megabytes: list[dict[str, Megabytes]] = Field(description="the same in MB of 2**20 bytes, to a byte")
    passes: Passes = Field(description="cost of scoring; 0 for a method that trains: its cost is that of training")
    gap: float = Field(
        0.0,
        description="largest difference of logits between the gated and the smaller model, relative to their scale",
    )
    recovery: dict[Units, dict[str, float]] | None = Field(
        None,
        description="what is reported, by level, of weights that were recovered without training, of the first draw: "
        "attention modules with new output weights (recovered) and those that were tried and kept theirs (unchanged), "
        "or what the method says; null if nothing is",
    )
    training: ModelTraining = Field(description="how the task's model was trained")
    method_training: MethodTraining | None = Field(None, description="what the method trained; null if nothing")

    @model_validator(mode="after")
    def _check(self) -> Result:
        check_result(self)
        return self
