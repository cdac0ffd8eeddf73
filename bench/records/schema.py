"""The fields of a record, each declared once, with its unit and shape.

Fields at their defaults are not written, so a default that changes would change what old records say: it needs another
number of the protocol. A level is a number of units removed. A draw is one of the removal orders of a method that is
random by nature; other methods have one draw. Arrays that would be bulky as text are stored beside the record
(``bench.records.store``).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    field_validator,
    model_validator,
)

from bench.records.consistency import check_result, check_samples, check_trace

Share = Annotated[float, Field(ge=0, le=1)]
Value = str | int | float | bool | None
Count = Annotated[int, Field(ge=0, le=2**53)]  # exact as a float
Units = Annotated[int, Field(ge=0, le=10**6)]
# Records are many: digits without a meaning are dropped.
Seconds = Annotated[float, Field(ge=0), AfterValidator(lambda seconds: round(seconds, 7))]
Megabytes = Annotated[float, Field(ge=0), AfterValidator(lambda size: round(size, 6))]  # to a byte
Metric = Annotated[float, AfterValidator(lambda value: float(f"{value:.8g}"))]
Samples = dict[Units, list[Seconds]]  # raw seconds, by number of units removed
EVALUATING = "seconds of evaluating all levels, those included whose evaluation an earlier cell of the model had made"


def _said(asked: dict[str, Value | list[str]]) -> dict[str, Value | list[str]]:
    """Without empty texts and lists, zeros and what is off: nothing was asked by them, and each record has many."""
    return {name: value for name, value in asked.items() if value}


class TaskKey(NamedTuple):
    """What identifies a task among records."""

    task: str
    data: str
    model: str


class Part(BaseModel):
    """A part of a record: immutable, and without numbers that are not finite and fields that are not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class CellInfo(Part):
    """Which cell was run: one task, model, method and seed, with all settings that were requested."""

    protocol: int = Field(description="number of the protocol; records of different protocols are never compared")
    task: str = Field(description="name of the task adapter")
    data: str = Field(description="name of the data set")
    model: str = Field(description="name of the model")
    origin: str | None = Field(None, description="digest of the data and of a model that was not trained here")
    method: str = Field(description="registered name of the method")
    label: str = Field(description="name of the method with the options that differ from its defaults")
    options: dict[str, Value] = Field(description="every option of the method with its value")
    source: str = Field("", description="paper and equation that define the method")
    shape: Literal["scorer", "selector", "joint"] | None = Field(None, description="shape of the method's contract")
    control: bool = Field(description="whether the method is only there to compare others with")
    seed: NonNegativeInt = Field(description="seed of the trained model, the calibration set and the method's draws")
    calibration: PositiveInt = Field(description="requested size of the calibration set, in examples")
    calibration_from: Literal["held-out", "train"] = Field(
        "train",
        description="held-out: calibration examples are training examples that the model was not trained on; train: "
        "they are from its training split",
    )
    trained: Share | None = Field(
        description="share of the task's own training that the method takes at each level; null if it trains nothing"
    )
    device: str = Field(description="cpu or cuda")
    asked: Annotated[dict[str, Value | list[str]], AfterValidator(_said)] = Field(
        description="the request for the task, by a suite or the command line; without what it leaves empty or out"
    )


class Provenance(Part):
    """Where a record comes from."""

    python: str = Field("", description="version of Python")
    packages: dict[str, str] = Field(description="version of each package; empty if it is not installed")
    system: str = Field("", description="operating system and architecture")
    processor: str = Field(description="name of the processor")
    commit: str = Field(description="git commit of the code; empty outside a checkout")
    dirty: bool = Field(False, description="whether the checkout had uncommitted changes")


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
    removed: list[Units] = Field(min_length=2, description="units removed at each level, (levels,)")
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
    chance: Share = Field(description="quality of always predicting the most frequent label of the test split")
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


class ProcessorSeconds(Part):
    """Processor seconds of the process, which depend little on other work on the machine."""

    choosing: Seconds = Field(description="processor seconds of scoring or, if the method trains, of training")
    evaluation: Seconds = Field(description=f"processor {EVALUATING}")


class Latency(Part):
    """Raw seconds of a forward pass of the smaller models."""

    samples: dict[Count, Samples] = Field(description="by batch size, by number of units removed: seconds, (repeats,)")
    interleaved: bool = Field(True, description="whether each repeat timed all smaller models in turn")
    length: dict[int, int] = Field({}, description="tokens of each example, by batch size")
    dtype: str = Field("", description="data type of the weights")
    device: str = Field("", description="cpu, or the name of the GPU")
    processor: str = Field("", description="name of the machine's processor; empty if it is that of the provenance")
    threads: int | None = Field(None, description="number of torch threads")
    alone: bool | None = Field(None, description="whether no other run of the user was active; null if not known")

    @field_validator("samples")
    @classmethod
    def _check(cls, samples: dict[int, Samples]) -> dict[int, Samples]:
        for of_batch in samples.values():
            check_samples(of_batch)
        return samples


class Generation(Part):
    """Raw seconds of generating text."""

    samples: Samples = Field(description="by number of units removed: seconds, (repeats,)")
    prompt: int = Field(description="tokens of the prompt")
    new: int = Field(description="tokens generated")

    @field_validator("samples")
    @classmethod
    def _check(cls, samples: Samples) -> Samples:
        check_samples(samples)
        return samples


class Measured(Part):
    """Times and memory, which differ from run to run."""

    seconds: Seconds = Field(0.0, description="wall seconds of the cell")
    scoring_seconds: Seconds = Field(description="wall seconds of scoring; 0 for a method that trains")
    method_training_seconds: Seconds = Field(description="wall seconds that the method trained; 0 for others")
    evaluation_seconds: Seconds = Field(0.0, description=f"wall {EVALUATING}")
    processor_seconds: ProcessorSeconds | None = None
    training_seconds: Seconds = Field(0.0, description="wall seconds of training the task's model, whenever that was")
    timing_seconds: Seconds = Field(0.0, description="wall seconds of timing the smaller models; 0 if not timed")
    peak_bytes: dict[str, int] = Field({}, description="peak memory of the process and, with CUDA, of the device")
    latency: Latency | None = Field(None, description="forward passes of the smaller models; null if not timed")
    generation: Generation | None = Field(None, description="generation of text; null if not timed")


class RecordHead(Part):
    """What every record holds."""

    key: str = Field("", description="digest of everything that can change the result")
    cell: CellInfo
    provenance: Provenance
    digest: str = Field("", description="SHA-256 of the record without this field")

    @property
    def task(self) -> TaskKey:
        """Task, data and model."""
        return TaskKey(self.cell.task, self.cell.data, self.cell.model)


class FinishedRecord(RecordHead):
    """The record of a cell that has a result."""

    status: Literal["done"] = Field("done", description="that the cell has a result")
    result: Result
    measured: Measured
    outcomes: str = Field("", description="SHA-256 of the file with the arrays")


class FailedRecord(RecordHead):
    """The record of a cell that failed."""

    status: Literal["failed"] = Field("failed", description="that it has none")
    reason: str = Field(description="what went wrong, in one line")
    traceback: str | None = Field(None, description="Python traceback")


Record = FinishedRecord | FailedRecord
RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="status")])
