"""Kinds of values that fields of a record have."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
Value = str | int | float | bool | None
Count = Annotated[int, Field(ge=0, le=2**53)]  # exact as a float
Units = Annotated[int, Field(ge=0, le=10**6)]
# Records are many: digits without a meaning are dropped.
Seconds = Annotated[float, Field(ge=0), AfterValidator(lambda seconds: round(seconds, 7))]
Megabytes = Annotated[float, Field(ge=0), AfterValidator(lambda size: round(size, 6))]  # to a byte
Metric = Annotated[float, AfterValidator(lambda value: float(f"{value:.8g}"))]
Samples = dict[Units, list[Seconds]]  # raw seconds, by number of units removed


class Part(BaseModel):
    """A part of a record: immutable, and without numbers that are not finite and fields that are not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    def updated(self, **values: Any) -> Self:
        """A copy with other values of some fields, which is validated as a new one is."""
        return type(self)(**dict(self) | values)
