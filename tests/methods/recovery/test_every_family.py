"""Recovery of every supported family, whose blocks differ in what they take, in what they add up and in layout."""

from __future__ import annotations

import pytest
import torch

from methods.checks.tiny import Batch
from methods.contract.choice import Choice
from methods.recovery.recover import held_out_texts, recover
from tests.fixtures.slow import slow_cases
from tests.methods.heads.conftest import ENCODER_DECODERS, FAMILIES, TYPICAL, Zoo, each
from tests.methods.recovery.oracle import slow, slow_damped

# Not one plain stack, or blocks without heads; or, in Gemma 2 and OLMo 2, a norm between the projection and the sum.
OUTPUT_ALONE = {*ENCODER_DECODERS, "albert", "gemma2", "olmo2", "qwen3-next"}
# Blocks that return more than the next one's input.
OUTPUT_ALONE |= {"deberta", "deberta-v2", "deberta-v3", "roformer", "xlm", "flaubert"}
OUTPUT_ALONE |= {"gptj", "codegen", "falcon", "falcon-grouped", "falcon-alibi", "bloom"}
# Pads its texts to whole windows, so batches do not say which of its tokens are padding.
PADS_ITSELF = {"longformer"}


@pytest.fixture(scope="module")
def zoo():
    return Zoo()


def batch(zoo, family, number):
    """Four texts, or images, that differ by ``number``."""
    inputs = zoo.batch(family)
    for name, values in inputs.items():
        if name == "pixel_values":
            inputs[name] = values.roll(number, 0) + values
        elif name.endswith("input_ids"):
            inputs[name] = ((values + 7 * number) % 37 + 3) * (values > 0)
    if family in ENCODER_DECODERS:
        inputs["decoder_attention_mask"] = torch.ones_like(inputs["decoder_input_ids"])
    return Batch(inputs, torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize("family", each(sorted(FAMILIES.keys() - PADS_ITSELF), TYPICAL))
@pytest.mark.parametrize("how", [*slow_cases("scale"), "lstsq"])
def test_recovered_models_give_the_logits_of_the_formulas(zoo, tiny, family, how):
    model = zoo.model(family, dtype=torch.float64).requires_grad_(False)
    view = tiny.view(model, [batch(zoo, family, number) for number in range(3)])
    choice = Choice(model, view.heads, zoo.masks(view.heads)["random"])
    found = recover(view, choice, how, guarded=False)
    expected, counts = slow(view, choice, how, held_out_texts(view), adds=family not in OUTPUT_ALONE)
    smaller = found.choice.smaller()
    with found.choice.gated() as gated, Choice(expected, view.heads, choice.mask).gated() as wanted:
        logits = view.forward(gated, view.batches[0])
        zoo.assert_close(logits, view.forward(wanted, view.batches[0]), what=family)
        zoo.assert_close(view.forward(smaller, view.batches[0]), logits, what=family)
    assert [found.recovered, found.unchanged] == counts
    assert found.recovered


@pytest.mark.parametrize("how", ["scale", "scale-damped", "lstsq"])
def test_a_projection_that_is_not_run_without_heads(zoo, tiny, how):
    """GPT-2's cannot run on nothing."""
    model = zoo.model("gpt2", dtype=torch.float64).requires_grad_(False)
    view = tiny.view(model, [batch(zoo, "gpt2", number) for number in range(3)])
    mask = zoo.masks(view.heads)["random"]
    mask[view.heads.site_of_unit == 1] = False
    choice = Choice(model, view.heads, mask)
    check_against_slow(zoo, view, choice, how)
    smaller = choice.smaller()
    again = tiny.view(smaller, view.batches)
    left = again.heads.full_mask()
    left[0] = False
    check_against_slow(zoo, again, Choice(smaller, again.heads, left), how)


def check_against_slow(zoo, view, choice, how):
    found = recover(view, choice, how, guarded=False)
    if how == "scale-damped":
        expected, counts = slow_damped(view, choice, adds=True)
    else:
        expected, counts = slow(view, choice, how, held_out_texts(view), adds=True)
    assert [found.recovered, found.unchanged] == counts
    state = found.choice.model.state_dict()
    for name, value in expected.state_dict().items():
        zoo.assert_close(state[name], value, what=name)
