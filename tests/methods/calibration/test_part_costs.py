"""What units and neurons cost is what a model has less, and computes less, without them."""

from __future__ import annotations

import pytest
import torch
import transformers as t
from torch.utils.flop_counter import FlopCounterMode

from methods.calibration.part_costs import multiplication_costs, parameter_costs
from methods.checks.tiny import Batch
from methods.contract.choice import Choice
from methods.heads import count_parameters, find_mlps
from tests.fixtures.slow import slow_cases
from tests.methods.heads.conftest import Zoo

GPT2 = {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 4, "num_labels": 3, "pad_token_id": 0}
PHI3 = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
# Not in the other tests: projections that are fused, and feed-forward layers in halves.
OTHERS = {
    "gpt2": lambda: t.GPT2ForSequenceClassification(t.GPT2Config(**GPT2)),
    "phi3": lambda: t.Phi3ForSequenceClassification(
        t.Phi3Config(**PHI3, num_key_value_heads=2, num_labels=3, pad_token_id=0, bos_token_id=None, eos_token_id=None)
    ),
}


def choices(view):
    """Each unit, and one neuron of each layer: (cost's index or name, what is kept)."""
    mlps = find_mlps(view.model)
    for unit in range(len(view.heads)):
        mask = view.heads.full_mask()
        mask[unit] = False
        yield unit, Choice(view.model, view.heads, mask)
    for mlp in mlps:
        neurons = {each.name: torch.ones(each.width, dtype=torch.bool) for each in mlps}
        neurons[mlp.name][1] = False
        yield mlp.name, Choice(view.model, view.heads, view.heads.full_mask(), neurons)


def cost_of(costs, part) -> float:
    units, neurons = costs
    return neurons[part] if isinstance(part, str) else float(units[part])


def views(tiny, architecture, count=1):
    model = OTHERS[architecture]().eval() if architecture in OTHERS else tiny.model(architecture)
    model.set_attn_implementation("eager")  # whose products are counted
    texts = tiny.sentences(5, count=count, shortest=4)
    batches = [tiny.batch(texts[:2]), *([tiny.batch(texts[2:], extra=3)] if count > 2 else [])]
    return tiny.view(model, batches, tiny.unit(architecture)), tiny.alone(texts)


EVERY = pytest.mark.parametrize("kind", ["bert", "albert", "llama", *OTHERS, *slow_cases("llama-query")])


@EVERY
def test_parameters_are_those_that_the_smaller_model_lacks(tiny, kind):
    view, _ = views(tiny, kind)
    costs, whole = parameter_costs(view), count_parameters(view.model)["model"]
    for part, choice in choices(view):
        assert whole - count_parameters(choice.smaller())["model"] == cost_of(costs, part)


@EVERY
def test_multiplications_are_those_that_the_smaller_model_lacks(tiny, kind):
    view, alone = views(tiny, kind, count=5)
    costs = multiplication_costs(view)

    def multiplications(model) -> float:
        total = 0
        for text in alone:
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                view.forward(model, text)
            total += counter.get_total_flops() / 2
        return total / len(alone)

    whole = multiplications(view.model)
    for part, choice in choices(view):
        assert whole - multiplications(choice.smaller()) == pytest.approx(cost_of(costs, part))


def test_images_are_of_as_many_tokens_as_they_have_patches(tiny):
    """They come without a mask."""
    zoo = Zoo()
    model, batch = zoo.model("vit"), zoo.batch("vit")
    model.set_attn_implementation("eager")
    view = tiny.view(model, [Batch(batch, torch.zeros(len(batch["pixel_values"]), dtype=torch.long))])
    costs, image = multiplication_costs(view), {name: values[:1] for name, values in batch.items()}

    def multiplications(model) -> float:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(**image)
        return counter.get_total_flops() / 2

    whole = multiplications(model)
    for part, choice in choices(view):
        assert whole - multiplications(choice.smaller()) == pytest.approx(cost_of(costs, part))


@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "longformer", "umt5"])
def test_parameters_beside_the_projections_count(tiny, family):
    """Projections of positions and for global attention, biases of queries and values, and embeddings of distances."""
    zoo = Zoo()
    view = tiny.view(zoo.model(family), [Batch(zoo.batch(family), torch.zeros(4, dtype=torch.long))])
    costs, whole = parameter_costs(view), count_parameters(view.model)["model"]
    for part, choice in choices(view):
        assert whole - count_parameters(choice.smaller())["model"] == cost_of(costs, part)
