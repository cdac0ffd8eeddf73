"""A task as a suite file or a command line asks for it. Imports no torch, so that the command line starts fast."""

from __future__ import annotations

import csv
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

CalibrationSource = Literal["held-out", "train"]


def _split_list(value: Any, info: ValidationInfo) -> Any:
    """``"a,b"`` or a list as a tuple; a name with a comma is in double quotes."""
    if not isinstance(value, str):
        return tuple(value) if isinstance(value, list) else value
    names = next(csv.reader([value], skipinitialspace=True), [])
    if not names or not all(names):
        title = TaskSpec.model_fields[str(info.field_name)].title
        raise ValueError(f"expected {title}, or {title},{title}")
    return tuple(names)


Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]


class TaskSpec(BaseModel):
    """A task, its data and its model; empty fields stand for what the adapter has built in.

    Each field is a key of a ``[[tasks]]`` table and a flag of the command line, whose placeholder is the title.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: str = Field(title="NAME", description="task adapter (see `headbench list tasks`)")
    data: str = Field("", title="FILE|DIR|ID", description="JSONL, CSV, Parquet, a folder of them, or a hub id")
    model: str = Field("", title="DIR|ID", description="model (default: a small one, trained on the data)")
    text: Names = Field((), title="COLUMN", description="column of the text, or of both texts of a pair")
    label: str = Field("", title="COLUMN", description="column of the label (default: the adapter's)")
    finetune: bool = Field(False, description="train the model on the training split first")
    limit: int = Field(0, ge=0, title="N", description="use at most N examples of each split (default: all)")
    mirror: str = Field("", title="DIR", description="folder with local copies of hub ids (or HEADBENCH_MIRROR)")
    harness_tasks: Names = Field(
        (), title="TASK", description="tasks of lm-eval, or folders of task files, for --task harness"
    )
    trust_task_code: bool = Field(False, description="run Python code that task files in --harness-tasks name")
    dtype: str = Field(
        "",
        title="float32|bfloat16|float16|auto",
        description="data type of a language model's weights (default: float32)",
    )
    device_map: str = Field(
        "", title="auto", description="spread a language model over all GPUs (default: one device holds it)"
    )
    unit: Literal["group", "query"] = Field(
        "group",
        description="what can be removed of a model with fewer key/value than query heads: a key/value head with its "
        "query heads, or one query head of every key/value head of a layer (default: group)",
    )

    @model_validator(mode="after")
    def _check_columns(self) -> TaskSpec:
        if (self.text or self.label) and not self.data:
            raise ValueError("columns for the text or the label need data: add --data (in a suite file: data)")
        return self
