"""Running the ONNX files of a model, also in the place of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from bench.exports.errors import in_one_line
from bench.exports.onnx_runtime import onnx_runtime
from methods.heads.surgery.shrink import working_copy

REFUSED, INSTEAD = "--export: ONNX Runtime does not run the files", "leave --export out"


class Runner:
    """ONNX Runtime on the CPU, with as many threads as torch has.

    Files that it does not load or run raise InputError, here and wherever they are run.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        onnxruntime = onnx_runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # errors are raised as well
        with in_one_line(REFUSED, INSTEAD):
            self._sessions = [
                onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]) for file in files
            ]

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The logits for what the model itself is called with; of an encoder-decoder, with ``decoder_input_ids``."""
        if len(self._sessions) == 1:
            return self._logits_and_cache(inputs, {})[0]
        hidden = self.encoded(inputs["input_ids"], inputs["attention_mask"])
        return self.decoded(hidden, inputs["attention_mask"], inputs["decoder_input_ids"])

    def encoded(self, ids: Tensor, mask: Tensor) -> Tensor:
        """What the encoder makes of the source ``ids``, (B, S): (B, S, d)."""
        return _run(self._sessions[0], {"input_ids": ids, "attention_mask": mask})["last_hidden_state"]

    def decoded(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """Logits of the decoder for ``ids``, (B, T), and what the encoder made of the source, (B, S, d)."""
        given = {"input_ids": ids, "encoder_attention_mask": mask, "encoder_hidden_states": hidden}
        return _run(self._sessions[1], given)["logits"]

    def logits_in_parts(self, inputs: Mapping[str, Tensor], first: int) -> Tensor:
        """As ``logits`` of a language model, which gets the ``first`` tokens, and the others with their cache."""
        start = {name: value[:, :first] for name, value in inputs.items()}
        before, cache = self._logits_and_cache(start, {})
        after, _ = self._logits_and_cache(inputs, cache, first)
        return torch.cat([before, after], dim=1)

    @property
    def has_cache(self) -> bool:
        """Whether the model takes the keys and values of earlier tokens."""
        return any(each.name.startswith("past_key_values.") for each in self._sessions[0].get_inputs())

    def _logits_and_cache(
        self, inputs: Mapping[str, Tensor], cache: Mapping[str, Tensor], first: int = 0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits from the token ``first`` on, and the cache of all tokens."""
        ids = inputs["input_ids"]
        mask = inputs["attention_mask"]
        given = {**inputs, "input_ids": ids[:, first:], "position_ids": positions(mask)[:, first:], **cache}
        wanted = self._sessions[0].get_inputs()
        for each in wanted:
            if each.name not in given:  # keys or values: (B, heads, 0, d_h)
                given[each.name] = torch.zeros(len(ids), each.shape[1], 0, each.shape[3])
        found = _run(self._sessions[0], {each.name: given[each.name] for each in wanted})
        logits = found.pop("logits")
        return logits, {name.replace("present.", "past_key_values."): value for name, value in found.items()}


def positions(mask: Tensor) -> Tensor:
    """Number of each token among those that are not padding, (B, T), as generation counts them."""
    return (mask.cumsum(1) - 1).clamp_min(0)


def in_place_of(model: Any, runner: Runner) -> nn.Module:
    """A copy of ``model``, for what wants a model, whose forward pass is that of ``runner``.

    An encoder-decoder can generate: the source is encoded once, and the decoder gets all tokens at each step.
    """
    twin: Any = working_copy(model)

    def forward(
        self: Any,
        input_ids: Any = None,
        attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        if encoder_outputs is not None:
            hidden = encoder_outputs[0]
            mask = torch.ones(hidden.shape[:2], dtype=torch.long) if attention_mask is None else attention_mask
            return Seq2SeqLMOutput(logits=runner.decoded(hidden, mask, others["decoder_input_ids"]))
        tensors = {name: value for name, value in others.items() if isinstance(value, Tensor)}
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return Seq2SeqLMOutput(logits=runner.logits({"input_ids": input_ids, "attention_mask": mask, **tensors}))

    def generate(self: Any, input_ids: Tensor, attention_mask: Tensor, **settings: Any) -> Any:
        # Whatever the caller says: with a cache, the graph would get the last token alone at each later step.
        settings |= {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
        if self.config.is_encoder_decoder:  # whose own encoder would be run otherwise, in torch
            encoded = runner.encoded(input_ids, attention_mask)
            settings["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        return type(self).generate(self, **settings)

    twin.forward = MethodType(forward, twin)
    if model.can_generate():
        twin.generate = MethodType(generate, twin)
    return twin


def _run(session: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    names = [output.name for output in session.get_outputs()]
    given = {name: value.detach().numpy() for name, value in tensors.items()}
    with in_one_line(REFUSED, INSTEAD):
        found: list[np.ndarray] = session.run(names, given)
    return {name: torch.from_numpy(value) for name, value in zip(names, found, strict=True)}
