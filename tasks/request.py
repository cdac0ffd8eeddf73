"""A task as a suite file or a command line asks for it. Imports no torch, so that the command line starts fast."""

from __future__ import annotations

import csv
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from tasks.paths import expanded

CalibrationSource = Literal["held-out", "train"]
AttentionKind = Literal["encoder", "decoder", "cross"]


def flag_of(name: str) -> str:
    """The flag of the command line for the field ``name``."""
    return f"--{name.replace('_', '-')}"


def _split_list(value: Any, info: ValidationInfo) -> Any:
    """``"a,b"`` or a list as a tuple; a name with a comma is in double quotes."""
    if not isinstance(value, (str, list)):
        return value
    try:
        names = next(csv.reader([value], skipinitialspace=True), []) if isinstance(value, str) else value
    except csv.Error as error:  # a line break, or a text that is too long
        raise ValueError(f"{error} (a name with a line break or a comma is in double quotes)") from error
    if not all(names) or (not names and value != []):  # in a record, a list that was left out is empty
        title = TaskSpec.model_fields[str(info.field_name)].title
        raise ValueError(f"expected {title}, or {title},{title}")
    return tuple(names)


def _last_part(name: str) -> str:
    """The last part of a path; an id of the hub as it is."""
    path = expanded(name)
    return path.absolute().name if name and (path.exists() or name.startswith((".", "/", "~"))) else name


def _in_order(kinds: tuple[AttentionKind, ...]) -> tuple[AttentionKind, ...]:
    """Each kind once, so that one request is not written in two ways."""
    return tuple(kind for kind in get_args(AttentionKind) if kind in kinds)


def _each_once(columns: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [column for column in columns if columns.count(column) > 1]:
        raise ValueError(f"column {twice[0]} is named twice")
    return columns


Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Kinds = Annotated[tuple[AttentionKind, ...], BeforeValidator(_split_list), AfterValidator(_in_order)]


class TaskSpec(BaseModel):
    """A task, its data and its model; empty fields stand for what the adapter has built in.

    Each field is a key of a ``[[tasks]]`` table and a flag of the command line, whose placeholder is the title.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: str = Field(title="NAME", description="task adapter (see `headbench list tasks`)")
    data: str = Field("", title="FILE|DIR|ID", description="JSONL, CSV, TSV, Parquet, a folder of them, or a hub id")
    train: str = Field("", title="FILE", description="file of the training split, in place of --data")
    validation: str = Field("", title="FILE", description="file of the validation split, with --train")
    test: str = Field("", title="FILE", description="file of the test split, with --train")
    model: str = Field(
        "",
        title="DIR|ID",
        description="model folder, hub id, or pypi:PACKAGE for one in an installed package (default: a small model, "
        "trained on the data)",
    )
    text: Annotated[Names, AfterValidator(_each_once)] = Field(
        (),
        title="COLUMN",
        description="column of the text, or of both texts of a pair; language models join any number of columns",
    )
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
    languages: Names = Field(
        (), title="CODE", description="source and target language as the model's tokenizer calls them, for translation"
    )
    beams: int = Field(0, ge=0, title="N", description="beams of translation (default: greedy)")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, title="SHARE", description="label smoothing of the loss of translation (default: 0)"
    )
    unit: Literal["group", "query"] = Field(
        "group",
        description="what can be removed of a model with fewer key/value than query heads: a key/value head with its "
        "query heads, or one query head of every key/value head of a layer (default: group)",
    )
    kinds: Kinds = Field(
        (),
        title="KIND",
        description="remove heads only of these kinds of attention, encoder, decoder or cross: shares are then of the "
        "units in these (default: all)",
    )

    @property
    def source(self) -> str | dict[str, str]:
        """Where the user's data is: a file, folder or id, or a file by split. Empty for built-in data."""
        files = {"train": self.train, "validation": self.validation, "test": self.test}
        return self.data or {split: file for split, file in files.items() if file}

    def without_folders(self) -> dict[str, Any]:
        """As JSON, with each local path cut to its last part: others may see that, and not where a user keeps files."""
        paths = ("data", "train", "validation", "test", "model", "mirror")
        found = self.model_dump(mode="json")
        found |= {name: _last_part(found[name]) for name in paths}
        return found | {"harness_tasks": [_last_part(name) for name in self.harness_tasks]}

    @model_validator(mode="after")
    def _check_translation(self) -> TaskSpec:
        given = [
            name
            for name in ("languages", "beams", "label_smoothing")
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        if given and self.task != "translation":
            raise ValueError(f"{flag_of(given[0])} is for --task translation")
        return self

    @model_validator(mode="after")
    def _check_finetune(self) -> TaskSpec:
        if self.finetune and not self.model and self.task != "harness":  # which trains no given model either
            raise ValueError("--finetune is for a model of your own: add --model (in a suite file: model)")
        return self

    @model_validator(mode="after")
    def _check_data(self) -> TaskSpec:
        if self.data and (self.train or self.validation or self.test):
            raise ValueError("data is given twice: use --data, or --train with --validation and --test")
        if (self.validation or self.test) and not self.train:
            raise ValueError("a validation or test split needs a training split: add --train (in a suite file: train)")
        if (self.text or self.label) and not self.source:
            raise ValueError("columns for the text or the label need data: add --data (in a suite file: data)")
        return self
