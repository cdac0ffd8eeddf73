"""Tries every model type of transformers: which are supported, which are refused and why.

``python -m tests.methods.heads.sweep`` builds a small random model of each, without network, and writes
``model_types.csv`` beside this file and the table of docs/heads.md. Model types given as arguments are tried and
printed, and nothing is written.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import torch
import transformers as t
from torch import Tensor, nn

from methods.heads import HeadMap, UnsupportedArchitecture, gated, remove_heads
from tests.methods.heads.model_types import Result, document, write
from tests.methods.heads.small_models import IMAGE, MELS, build, model_types, randomize

SECONDS = 40  # that one model type may take
BYTES = 12 * 2**30  # of address space that it may take
LARGEST = 600_000_000  # parameters
TOLERANCE, EFFECT = 1e-4, 1e-3  # how far removed may be off gated, and gated must be off whole, on the outputs' scale


class NotRun(Exception):
    """The model does not run on any of the inputs that are known here."""


def try_type(model_type: str) -> Result:
    """Build a model of this type, narrow or, where that is no valid configuration, in its default width; try it."""
    found = []
    for narrow in (True, False):
        found.append(_try_width(model_type, narrow))
        if found[-1].status == "exact":
            break
    order = ["exact", "refused", "not built"]
    return min(found, key=lambda result: order.index(result.status))


def _try_width(model_type: str, narrow: bool) -> Result:
    try:
        model = build(model_type, narrow, "cpu" if narrow else "meta")
    except Exception as error:
        return Result(model_type, "not built", reason=_line(error))
    name = type(model).__name__
    try:
        heads = HeadMap.of(model)
    except UnsupportedArchitecture as error:
        attends = any("attention" in type(module).__name__.lower() for module in model.modules())
        return Result(model_type, "refused", name, reason=str(error) if attends else "has no attention")
    parts = " ".join(heads.left_alone)
    known = Result(model_type, "exact", name, len(heads.sites), len(heads), len(heads.never_empty), parts)
    if sum(parameter.numel() for parameter in model.parameters()) > LARGEST:
        return Result(model_type, "not built", name, reason="too large to build")
    try:
        model = model if narrow else build(model_type, narrow)
        randomize(model)
        left_out = check_exact(model, heads)
    except Exception as error:
        return Result(model_type, "not built", name, reason=_line(error))
    return Result(**{**asdict(known), "reason": left_out})


@torch.no_grad()
def check_exact(model: t.PreTrainedModel, heads: HeadMap) -> str:
    """Compare gated with removed for several masks, and say in words which sites no known input reaches.

    Raises AssertionError if they differ, NotRun if the model runs on no known input.
    """
    left = set(range(len(heads.sites)))
    runs = []
    for path, part in model.named_modules():
        if not isinstance(part, t.PreTrainedModel) or not any(_inside(heads.sites[site].name, path) for site in left):
            continue
        inputs, reached = _best_inputs(part, model, heads, left)
        if reached:
            runs.append((path, inputs))
            left -= reached
        if not left:
            break
    if not runs:
        raise NotRun("runs on none of the texts, images and sounds that are tried")
    for name, mask in _masks(heads).items():
        smaller = remove_heads(model, mask, heads)
        for path, inputs in runs:
            actual = _outputs(smaller.get_submodule(path), inputs)
            with gated(model, mask, heads):
                expected = _outputs(model.get_submodule(path), inputs)
            error = _difference(actual, expected)
            assert error <= TOLERANCE, f"WRONG: {name}: removed is off gated by {error:.1e}"
            if name == "some":
                effect = _difference(_outputs(model.get_submodule(path), inputs), expected)
                assert effect > EFFECT, f"the heads of {path or 'the model'} hardly change its outputs ({effect:.1e})"
    return f"sites that no input tried reaches: {len(left)}" if left else ""


def _masks(heads: HeadMap) -> dict[str, Tensor]:
    """Masks with some units, with every other site empty, and with nothing left.

    Sites that cannot run without any head keep one.
    """
    some = torch.rand(len(heads), generator=torch.Generator().manual_seed(2)) < 0.5
    masks = {
        "some": some,
        "every other site empty": some & (heads.site_of_unit % 2 == 1),
        "nothing left": torch.zeros_like(some),
    }
    least = len(heads.never_empty)
    return {name: heads.best(mask.float(), max(least, int(mask.sum()))) for name, mask in masks.items()}


def _best_inputs(
    part: nn.Module, model: nn.Module, heads: HeadMap, wanted: set[int]
) -> tuple[dict[str, Any], set[int]]:
    """Of the inputs on which ``part`` runs, those that reach most of the ``wanted`` sites, and these sites."""
    best: tuple[dict[str, Any], set[int]] = {}, set()
    for inputs in _inputs(part):
        reached: set[int] = set()
        with ExitStack() as hooks:
            for index in wanted:
                output = model.get_submodule(heads.sites[index].output)
                hooks.callback(output.register_forward_hook(partial(_add, reached, index)).remove)
            try:
                _outputs(part, inputs)
            except Exception:  # whatever a model says of inputs that it does not take
                continue
        if len(reached) > len(best[1]):
            best = inputs, reached
        if reached == wanted:
            break
    return best


def _add(reached: set[int], site: int, *_: Any) -> None:
    reached.add(site)


def _inputs(part: nn.Module) -> Iterator[dict[str, Any]]:
    """Inputs that a model with these arguments may take: all kinds that it has at first, then texts alone."""
    names = set(inspect.signature(type(part).forward).parameters)
    config: Any = part.config
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    ids = torch.randint(3, 45, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    texts: dict[str, Any] = {}
    for name in ("input_ids", "decoder_input_ids"):
        if name in names:
            texts[name] = ids
    if "attention_mask" in names and "input_ids" in names:
        texts["attention_mask"] = mask
    if "bbox" in names:
        texts["bbox"] = torch.arange(4).expand(2, 9, 4)
    channels, side = _number(config, "num_channels", "in_channels") or 3, _number(config, "image_size") or IMAGE
    others: dict[str, list[Tensor]] = {
        "pixel_values": [
            random(2, channels, side, side),
            random(2, _number(config, "num_frames") or 2, channels, side, side),
            random(2, 3, 64, 64),
        ],
        "input_features": [
            random(2, MELS, 2 * (_number(config, "max_source_positions") or 64)),
            random(2, 64, MELS),
            random(2, 64, _number(config, "feature_projection_input_dim") or 80),
        ],
        "input_values": [random(2, 4000), random(2, _number(config, "max_length") or 64, MELS)],
        "noise": [random(2, 16)],
        "encoder_hidden_states": [random(2, 9, _number(config, "encoder_hidden_size", "hidden_size", "d_model") or 32)],
        "cross_attention_states": [random(2, 9, _number(config, "hidden_size") or 32)],
        "query_embeds": [random(2, 9, _number(config, "hidden_size") or 32)],
    }
    kinds = [[(name, value) for value in values] for name, values in others.items() if name in names]
    for values in product(*kinds):
        yield texts | dict(values)
    if kinds:
        yield texts
        for values in product(*kinds):
            yield dict(values)
    if {"hidden_states", "grid_thw"} <= names:
        size = _number(config, "patch_size") or 8
        frames = _number(config, "temporal_patch_size") or 1
        grid = torch.tensor([[1, 4, 4]])
        yield {"hidden_states": random(16, channels * frames * size * size), "grid_thw": grid}
    if "hidden_states" in names:
        yield {"hidden_states": random(2, 9, _number(config, "hidden_size") or 32)}
    if "inputs_embeds" in names:
        attended = {name: others[name][0] for name in ("encoder_hidden_states",) if name in names}
        yield attended | {"inputs_embeds": random(2, 9, _number(config, "hidden_size") or 32)}


def _number(config: Any, *names: str) -> int | None:
    """The first of these numbers that the configuration, or one inside it, has; of a list its first entry."""
    inner = [each for each in vars(config).values() if isinstance(each, t.PreTrainedConfig)]
    for each, name in product([config, *inner], names):
        value = getattr(each, name, None)
        value = value[0] if isinstance(value, list | tuple) and value else value
        if type(value) is int:
            return value
    return None


def _outputs(part: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """The outputs of a model that are numbers, without its cache; random draws inside are the same each time."""
    torch.manual_seed(0)
    found: list[Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                found.append(value)
        elif isinstance(value, dict):
            for name, each in value.items():
                if not name.startswith(("past", "attentions")):
                    collect(each)
        elif isinstance(value, list | tuple) and value:
            collect(value[0])

    collect(part(**inputs))
    if not found or not all(each.isfinite().all() for each in found):
        raise NotRun("outputs are not finite")
    return found


def _difference(actual: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference between outputs, each on its own scale."""
    assert [each.shape for each in actual] == [each.shape for each in expected]
    scales = [max(each.abs().max().item(), 1e-6) if each.numel() else 1.0 for each in expected]
    pairs = zip(actual, expected, scales, strict=True)
    return max((one - other).abs().max().item() / scale for one, other, scale in pairs if one.numel())


def _inside(name: str, path: str) -> bool:
    return not path or name.startswith(f"{path}.")


def _line(error: Exception) -> str:
    """An error in one line of at most 200 characters."""
    text = str(error) if isinstance(error, NotRun | AssertionError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:200]


def try_apart(model_type: str) -> Result:
    """The same in a process of its own, which may take ``SECONDS`` and ``BYTES``."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            signal.alarm(SECONDS)
            with os.fdopen(writing, "w") as pipe:
                json.dump(asdict(try_type(model_type)), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    if text:
        return Result(**json.loads(text))
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    reason = f"takes more than {SECONDS} seconds" if late else "takes too much memory, or ends its process"
    return Result(model_type, "not built", reason=reason)


def main(chosen: list[str]) -> None:
    """Try the chosen model types, or all of them and write the file."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    results = []
    importlib.import_module("transformers.models.auto.modeling_auto")  # once, for all processes
    for model_type in chosen or model_types():
        results.append(try_apart(model_type))
        print(*asdict(results[-1]).values(), sep="\t", flush=True)
    if not chosen:
        write(t.__version__, results)
        document(t.__version__, results)


if __name__ == "__main__":
    main(sys.argv[1:])
