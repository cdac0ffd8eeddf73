"""A method must leave model, hooks, texts and torch's global switches as it found them: other code uses them next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks

from methods.contract.view import Batch, View

# Global switches by their name in messages: how to read one, and how to set it.
SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "gradients being on": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the precision of torch's products in float32": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "torch's deterministic algorithms being on": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


class SideEffect(RuntimeError):
    """A method changed the model, its hooks, its calibration texts, or a global switch of torch."""


def switches() -> dict[str, Any]:
    """Current value of each switch, by name."""
    return {name: read() for name, (read, _) in SWITCHES.items()}


@contextmanager
def restored_switches() -> Iterator[dict[str, Any]]:
    """Restore all switches on leaving, also after an error. Yields their values on entering."""
    before = switches()
    try:
        yield before
    finally:
        for name, (read, restore) in SWITCHES.items():
            if read() != before[name]:
                restore(before[name])


@contextmanager
def restored_hooks() -> Iterator[None]:
    """Restore the hooks that torch runs for every module, on leaving, also after an error."""
    states = {name: state for name, state in vars(global_hooks).items() if name.startswith("_global_")}
    before = {name: dict(state) if isinstance(state, dict) else state for name, state in states.items()}
    try:
        yield
    finally:
        for name, state in states.items():
            if isinstance(state, dict):  # changed in place: the handles of hooks refer to it
                state.clear()
                state.update(before[name])
            setattr(global_hooks, name, state)


@contextmanager
def no_side_effects(model: nn.Module) -> Iterator[None]:
    """Raise SideEffect if the code inside changes a switch, or a weight of ``model``, or leaves a hook or removes one.

    Switches, and hooks of every module, are restored in any case. Weights are compared by digests of their bits, see
    :func:`digest_of_tensor`. What the code inside raises stays as it is, with a note on hooks.
    """
    weights, hooks = _digests(model), count_hooks(model)
    with restored_switches() as before, restored_hooks():
        try:
            yield
        except BaseException as error:
            if fault := _hooks_changed(hooks, count_hooks(model)):
                error.add_note(fault)
            raise
        after, left = switches(), count_hooks(model)
    if changed := [name for name, value in before.items() if after[name] != value]:
        raise SideEffect(f"the method changed {changed[0]} from {before[changed[0]]} to {after[changed[0]]}")
    if changed := _differing(weights, _digests(model)):
        raise SideEffect(f"the method changed weights of the model: {_first_of(changed)}")
    if fault := _hooks_changed(hooks, left):
        raise SideEffect(fault)


@contextmanager
def same_texts(view: View) -> Iterator[None]:
    """Raise SideEffect if the code inside changes a calibration batch of ``view``, or its ``kept``.

    What the code inside raises stays as it is.
    """
    before = _contents(view)
    yield
    if changed := _differing(before, _contents(view)):
        raise SideEffect(f"the method changed {_first_of(changed)} of its view: change a copy")


def tensors_of(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """All tensors of ``batches`` by name in messages, such as ``input_ids of batch 0``."""
    tensors: dict[str, Tensor] = {}
    for place, batch in enumerate(batches):
        tensors |= {f"{name} of batch {place}": values for name, values in batch.inputs.items()}
        tensors[f"labels of batch {place}"] = batch.labels
    return tensors


def _contents(view: View) -> dict[str, object]:
    tensors = {"kept": view.kept} | tensors_of(view.batches)
    return {name: _content(each) for name, each in tensors.items()}


def count_hooks(model: nn.Module) -> dict[str, int]:
    """Number of hooks of each kind on each module and parameter of ``model``, and on all modules.

    By name in messages, such as ``forward hooks of bert.encoder``.
    """
    found = {f"{kind} of every module": len(hooks) for kind, hooks in _hooks_in(vars(global_hooks), "_global_")}
    for path, module in model.named_modules():
        found |= {f"{kind} of {path or 'the model'}": len(hooks) for kind, hooks in _hooks_in(vars(module))}
    for name, parameter in model.named_parameters():
        kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
        own = {kind: getattr(parameter, kind, None) for kind in kinds}
        found |= {f"{kind} of {name}": len(hooks) for kind, hooks in _hooks_in(own)}
    return found


def digest_of_tensor(tensor: Tensor) -> int:
    """A digest of 64 bits of the bits of ``tensor`` and their places.

    Computed where the tensor is, over words of eight bytes: each is mixed with its place by the finalizer of
    splitmix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators"), and the results are added up. So
    there is no rounding, any change of one word is found, and others go unseen with a probability of about 2^-64. Takes
    about 0.7 s per GB on one core, and needs no copy of the tensor unless it is not contiguous.
    """
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    words = CHUNK["cpu" if content.device.type == "cpu" else "gpu"]
    steps = torch.arange(min(words, -(-len(content) // 8)), device=content.device) * GAMMA
    total = torch.zeros((), dtype=torch.int64, device=content.device)
    for start in range(0, len(content), 8 * words):
        part = content[start : start + 8 * words]
        mixed = torch.zeros(-(-len(part) // 8), dtype=torch.int64, device=content.device)
        mixed.view(torch.uint8)[: len(part)] = part
        mixed += steps[: len(mixed)]
        mixed += _wrapped(start // 8 * GAMMA)
        for shift, factor in MIXING:
            mixed ^= (mixed >> shift) & ((1 << (64 - shift)) - 1)
            mixed *= factor
        mixed ^= (mixed >> LAST_SHIFT) & ((1 << (64 - LAST_SHIFT)) - 1)
        total += mixed.sum()
    return int(total)


def _content(tensor: Tensor) -> tuple[int, torch.Size, torch.dtype]:
    """What a tensor is compared by: its digest, shape and type."""
    return digest_of_tensor(tensor), tensor.shape, tensor.dtype


def _wrapped(number: int) -> int:
    """``number`` modulo 2^64, as a signed integer of 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


GAMMA = _wrapped(0x9E3779B97F4A7C15)  # splitmix64's constants
MIXING = ((30, _wrapped(0xBF58476D1CE4E5B9)), (27, _wrapped(0x94D049BB133111EB)))
LAST_SHIFT = 31
CHUNK = {"cpu": 2**15, "gpu": 2**24}  # words at a time: what fits in a core's cache, or keeps a GPU busy


def _digests(model: nn.Module) -> dict[str, object]:
    """The digest, shape and type of each weight and buffer that a checkpoint holds, by name; tied weights once."""
    seen: set[tuple[torch.device, int, torch.Size, tuple[int, ...]]] = set()
    digests: dict[str, object] = {}
    for name, value in model.state_dict().items():
        if value.is_meta or not value.numel():
            continue
        place = (value.device, value.data_ptr(), value.shape, value.stride())
        if place not in seen:
            seen.add(place)
            digests[name] = _content(value)
    return digests


def _hooks_in(attributes: Mapping[str, Any], prefix: str = "_") -> Iterator[tuple[str, Sized]]:
    """Hooks among ``attributes``, by kind in words."""
    for name, value in attributes.items():
        if name.startswith(prefix) and name.endswith("_hooks") and isinstance(value, Sized):
            yield name.removeprefix(prefix).replace("_", " "), value


def _differing(before: Mapping[str, object], after: Mapping[str, object], absent: object = None) -> list[str]:
    """Names whose values differ; a name that is not there has the value ``absent``."""
    return [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]


def _hooks_changed(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """What became of hooks, in words; empty where they are as they were."""
    if not (changed := _differing(before, after, absent=0)):
        return ""
    was, now = before.get(changed[0], 0), after.get(changed[0], 0)
    return f"the method left hooks behind, or removed some: {_first_of(changed)}, was {was}, is {now}"


def _first_of(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} others" if len(names) > 1 else "")
