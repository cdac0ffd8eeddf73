"""Methods on models whose weights and texts are on one GPU or on several, which ``tests.fixtures.gpus`` plays."""

from __future__ import annotations

import pytest
import torch
from accelerate.hooks import attach_align_device_hook_on_blocks
from torch import Tensor

from methods import METHODS
from methods.heads import HeadMap
from methods.recovery.choosing import select
from tests.fixtures.gpus import OtherDevice, place, put
from tests.fixtures.slow import slow_cases

FIRST, SECOND = "cuda:0", "cuda:1"
QUICK = {
    "attr": {"steps": 2},
    "path": {"points": 2, "rounds": 2},
    "shapley": {"permutations": 4},
}  # options that keep a costly method fast
OWN = [(name, QUICK.get(name, {})) for name, method in METHODS.items() if method.base == name]
# Variants run the code of their method.
VARIANTS = [(name, QUICK.get(method.base, {})) for name, method in METHODS.items() if method.base != name]
RECOVERED = [("michel", {"recover": how}) for how in ("bias", "scale", "scale-damped", "lstsq")]
MORE = [*RECOVERED, ("kwon", {"parts": "both"}), ("gnorm", {"recompute": 2}), ("leave-one-out", {"recompute": 2})]
ON_TWO = [("michel", {}), ("kwon", {}), ("amp", {}), *MORE[3:]]


def scene(tiny, architecture: str = "llama"):
    """A view of a model on the first GPU."""
    model = put(tiny.model(architecture, 1).requires_grad_(False), FIRST)
    batches = [tiny.batch(tiny.sentences(seed, count=4), tiny.sides(architecture)[0], extra=1) for seed in (1, 2)]
    for batch in batches:
        for values in (*batch.inputs.values(), batch.labels):
            put(values, FIRST)
    view = tiny.view(model, batches, tiny.unit(architecture), seed=1)
    put(view.kept, "cpu")
    return view


def choose(view, name: str, options: dict[str, object]) -> None:
    """Choose units at two budgets, and run the smaller models, and the whole one with gates."""
    method = METHODS[name]
    for choices in select(method, method.configure(options), view, [0, 2, 3]).choices:
        for choice in choices:
            assert place(choice.mask) in ("", "cpu")
            assert all(place(kept) in ("", "cpu") for kept in (choice.neurons or {}).values())
            with torch.no_grad():
                logits = view.forward(choice.smaller(), view.batches[0])
                with choice.gated() as gated:
                    assert (logits - view.forward(gated, view.batches[0])).abs().max() < 1e-4


def test_tensors_of_two_devices_do_not_meet(gpus):
    one, other, number = put(torch.ones(3), FIRST), torch.ones(3), put(torch.tensor(2.0), FIRST)
    put(other, "cpu")
    with gpus:
        assert (one + one).device == torch.device(FIRST) and (2 * one + one.sum()).is_cuda
        assert one.cpu().device.type == "cpu" and other.to(one).device == one.device
        assert torch.zeros(2, device=one.device).is_cuda and one[torch.tensor([0, 2])].is_cuda
        for meet in (
            lambda: one + other,
            lambda: other * number,
            lambda: other[put(torch.tensor([0]), FIRST)],
            lambda: torch.cat([one, other]),
            lambda: torch.rand(3, device=FIRST, generator=torch.Generator()),
        ):
            with pytest.raises(OtherDevice):
                meet()
        with pytest.raises(TypeError, match="numpy"):
            one.numpy()


@pytest.mark.parametrize(("name", "options"), [*OWN, *slow_cases(*VARIANTS, *MORE)], ids=str)
def test_a_method_on_a_gpu(tiny, gpus, name, options):
    view = scene(tiny)
    with gpus:
        choose(view, name, options)


@pytest.mark.parametrize(
    ("name", "options"),
    [*ON_TWO, *slow_cases(("attr", QUICK["attr"]), ("cahp", {}), *MORE[:3])],
    ids=str,
)
def test_a_method_on_two_gpus(tiny, gpus, name, options):
    """As with --device-map auto: the lower half on one, the upper half on another, whose logits come back."""
    with gpus:
        view = scene(tiny)
        second = ("model.layers.1", "model.norm", "score")
        places = {"": FIRST} | dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.rotary_emb"), FIRST)
        places = {part: torch.device(where) for part, where in (places | dict.fromkeys(second, SECOND)).items()}
        attach_align_device_hook_on_blocks(
            view.model, execution_device=places, offload=dict.fromkeys(filter(None, places), False)
        )
        assert view.model.get_parameter("score.weight").device == torch.device(SECOND)
        choose(view, name, options)


def test_scores_on_a_gpu_are_ranked(tiny, gpus):
    heads = HeadMap.of(tiny.model("bert"))
    scores: Tensor = put(torch.arange(8.0), FIRST)
    with gpus:
        assert heads.best(scores, 2).nonzero().flatten().tolist() == [6, 7]
