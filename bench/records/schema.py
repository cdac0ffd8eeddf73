"""A record. Its fields are declared here and in ``result`` and ``measured``, each once, with unit and shape.

Fields at their defaults are not written, so a default that changes would change what old records say: it needs another
number of the protocol. Arrays that would be bulky as text are stored beside the record, by
``bench.records.storage.store``.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, TypeAdapter

from bench.records.fields import Part, Share, Value
from bench.records.measured import Measured
from bench.records.result import Result


def _said(asked: dict[str, Value | list[str]]) -> dict[str, Value | list[str]]:
    """Without empty texts and lists, zeros and what is off: nothing was asked by them, and each record has many."""
    return {name: value for name, value in asked.items() if value}


class TaskKey(NamedTuple):
    """What identifies a task among records."""

    task: str
    data: str
    model: str


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
    processor: str = Field(description="the processor: its name, family, model and widest vector instructions")
    commit: str = Field(description="git commit of the code; empty outside a checkout")
    dirty: bool = Field(False, description="whether the code had uncommitted changes")


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
    traceback: str | None = Field(None, description="Python traceback, which names folders of that machine")


Record = FinishedRecord | FailedRecord
RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="status")])
