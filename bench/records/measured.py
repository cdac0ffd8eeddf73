"""The fields of times and memory."""

from __future__ import annotations

from pydantic import Field, field_validator

from bench.records.consistency import check_samples
from bench.records.fields import Count, Part, Samples, Seconds

EVALUATING = "seconds of evaluating all levels, those included whose evaluation an earlier cell of the model had made"


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
    processor: str = Field("", description="name of the processor of the machine that it was timed on")
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
