"""Kwon's search, rearrangement and tuning against trying every set, and gates against dense least squares."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.cost import counting
from methods import METHODS, View
from methods.checks import ConfiguredMethod, NotApplicable, cases
from methods.contract.choice import Choice
from methods.contract.schedule import NonFiniteScore
from methods.heads import count_parameters, find_mlps, gated, gated_neurons
from methods.kwon import Ranked, best_split, neuron_information
from methods.recovery.choosing import choose, select
from methods.recovery.recover import held_out_texts
from tests.fixtures.slow import slow_cases
from tests.methods.recovery.oracle import divergence, slow

STEP = 1e-5
BOTH = ConfiguredMethod.of("kwon", parts="both")
WITHOUT_TUNING = ConfiguredMethod.of("kwon", parts="both", recover="none")


def scene(tiny, architecture, seed=0, dtype=torch.float64) -> tuple[View, View]:
    """A view whose texts lie in two batches with padding, and the same texts each in a batch of its own."""
    sentences = tiny.sentences(seed, count=6, shortest=3)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:4], first, extra=2), tiny.batch(sentences[4:], second)]
    model = tiny.model(architecture, seed, dtype).requires_grad_(False)
    view = tiny.view(model, batches, tiny.unit(architecture))
    return view, replace(view, batches=tiny.alone(sentences))


def slow_gradients(view, alone) -> torch.Tensor:
    """Slope of each text's loss by finite differences of one gate at a time: (units, texts)."""
    units, rows = len(view.heads), []
    for unit in range(units):
        slopes = []
        for text in alone.batches:
            losses = []
            for change in (STEP, -STEP):
                gates = torch.ones(units, dtype=torch.float64)
                gates[unit] += change
                with torch.no_grad(), gated(view.model, gates, view.heads):
                    losses.append(view.loss(text).item())
            slopes.append((losses[0] - losses[1]) / (2 * STEP))
        rows.append(slopes)
    return torch.tensor(rows, dtype=torch.float64)


def slow_mask(view, gradients, count) -> torch.Tensor:
    """Units kept, (units,) bool, without ``count``: those that lose least one by one, then the best swap each time.

    A swap is of two units of one site, and is good if the site's gates lose less together.
    """

    def lost(gone) -> float:
        return sum(gradients[[u for u in gone if site[u] == each]].sum(0).square().sum().item() for each in set(site))

    site = view.heads.site_of_unit.tolist()
    gone = set(gradients.square().sum(1).argsort()[:count].tolist())
    while True:
        swaps = [gone - {i} | {j} for i in gone for j in range(len(site)) if site[i] == site[j] and j not in gone]
        best = min(swaps, key=lost, default=gone)
        if lost(best) >= lost(gone) - 1e-9:
            mask = view.heads.full_mask()
            mask[list(gone)] = False
            return mask
        gone = best


def slow_tuning(alone, choice, architecture, held_out) -> dict[str, torch.Tensor]:
    """Weights with tuned gates, if those bring the logits of the texts held out nearer to the unpruned model's."""
    model, _ = slow(alone, choice, "scale", held_out, adds=architecture != "albert")
    nearer = divergence(alone, replace(choice, model=model), held_out) < divergence(alone, choice, held_out)
    return (model if nearer else choice.model).state_dict()


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_heads_by_trying_every_swap_and_gates_by_least_squares(tiny, architecture, seed):
    view, alone = scene(tiny, architecture, seed)
    gradients, method, levels = slow_gradients(view, alone), METHODS["kwon"], range(len(view.heads) + 1)
    (draw,) = choose(method, method.configure({}), view, levels)
    for count, found in draw.choices:
        mask = slow_mask(view, gradients, count)
        assert torch.equal(found.mask, mask)
        if not count:
            assert found.model is view.model
            continue
        wanted = slow_tuning(alone, Choice(view.model, view.heads, mask), architecture, held_out_texts(view))
        for name, value in found.model.state_dict().items():
            torch.testing.assert_close(value, wanted[name], rtol=1e-7, atol=1e-7)


def test_only_gates_can_be_left_out(tiny):
    view, _ = scene(tiny, "bert")
    method = METHODS["kwon"]
    tuned, plain = (select(method, method.configure(given), view, [4]) for given in ({}, {"recover": "none"}))
    assert torch.equal(tuned.masks, plain.masks)
    assert plain.choices[0][0].model is view.model and tuned.choices[0][0].model is not view.model
    assert method.label(method.configure({})) == "kwon"
    assert method.label(method.configure({"recover": "none"})) == "kwon:recover=none"


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_information_of_neurons_is_that_of_slopes(tiny, architecture, seed):
    view, alone = scene(tiny, architecture, seed)
    found = neuron_information(view)
    for mlp in find_mlps(view.model):
        expected = torch.zeros(mlp.width, dtype=torch.float64)
        for neuron, text in product(range(mlp.width), alone.batches):
            losses = []
            for change in (STEP, -STEP):
                gates = {each.name: torch.ones(each.width, dtype=torch.float64) for each in find_mlps(view.model)}
                gates[mlp.name][neuron] += change
                with torch.no_grad(), gated_neurons(view.model, gates):
                    losses.append(view.loss(text).item())
            expected[neuron] += ((losses[0] - losses[1]) / (2 * STEP)) ** 2 / len(alone.batches)
        torch.testing.assert_close(found[mlp.name], expected, rtol=1e-4, atol=1e-9)


@st.composite
def problems(draw):
    """Heads and neurons with their costs, and a share that has to go."""

    def parts(most: int) -> Ranked:
        number, cost = draw(st.integers(0, most)), draw(st.integers(1, 9))
        information = [draw(st.integers(0, 20)) for _ in range(number)]
        values = torch.tensor(information, dtype=torch.float64)
        return Ranked(values, torch.full_like(values, cost), values.argsort(stable=True))

    return parts(4), parts(6), draw(st.floats(0, 1))


@given(problems())
def test_no_set_of_heads_and_neurons_that_costs_as_much_carries_less_information(problem):
    heads, neurons, share = problem
    information = torch.cat([heads.information, neurons.information]).tolist()
    costs = torch.cat([heads.cost, neurons.cost]).tolist()
    least = float("inf")
    for chosen in product([False, True], repeat=len(costs)):
        cost = sum(value for value, gone in zip(costs, chosen, strict=True) if gone)
        if cost >= share * sum(costs) * (1 - 1e-12):
            least = min(least, sum(value for value, gone in zip(information, chosen, strict=True) if gone))
    gone, gone_neurons = best_split(heads, neurons, share)
    removed = heads.removed(heads.information)[gone] + neurons.removed(neurons.information)[gone_neurons]
    assert removed == least
    cost = heads.removed(heads.cost)[gone] + neurons.removed(neurons.cost)[gone_neurons]
    assert cost >= share * sum(costs) * (1 - 1e-12)


def test_heads_that_must_stay_count_for_the_share():
    ones = torch.ones(4, dtype=torch.float64)
    heads = Ranked(torch.arange(4.0, dtype=torch.float64), ones, torch.tensor([0, 1]))  # two can go
    neurons = Ranked(ones, ones, torch.arange(4))
    assert sum(best_split(heads, neurons, 0.5)) == 4


def test_all_that_may_go_goes_where_that_is_not_enough():
    heads = Ranked(torch.ones(4).double(), torch.tensor([30.0, 1, 1, 1]).double(), torch.tensor([1, 2, 3]))
    neurons = Ranked(torch.ones(4).double(), torch.ones(4).double(), torch.arange(4))
    assert best_split(heads, neurons, 0.75) == (3, 4)


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_heads_and_neurons_are_the_best_split(tiny, architecture, seed):
    """Of all numbers of heads and neurons that remove enough parameters, those that lose least; then swaps of heads."""
    view, alone = scene(tiny, architecture, seed)
    gradients, units = slow_gradients(view, alone), len(view.heads)
    information = gradients.square().mean(1).sort().values
    by_layer = neuron_information(view)
    of_neurons = torch.cat(list(by_layer.values()))
    sizes = sizes_without_each(view)
    head, neuron = sizes["head"], sizes["neuron"]
    everything = units * head + len(of_neurons) * neuron
    selection = WITHOUT_TUNING.select(view, list(range(units + 1)))
    for count, choice in enumerate(selection.choices[0]):
        pairs = [
            (h, n)
            for h, n in product(range(units + 1), range(len(of_neurons) + 1))
            if (h * head + n * neuron) * units >= everything * count
        ]
        h, n = min(
            pairs, key=lambda each: float(information[: each[0]].sum() + of_neurons.sort().values[: each[1]].sum())
        )
        assert torch.equal(choice.mask, slow_mask(view, gradients, h))
        kept = torch.cat([choice.neurons[name] for name in by_layer])
        assert torch.equal((~kept).nonzero().flatten(), of_neurons.argsort()[:n].sort().values)


def sizes_without_each(view) -> dict[str, int]:
    """Parameters that the model loses with one unit, and with one neuron."""
    whole = count_parameters(view.model)["model"]
    mask, neurons = view.heads.full_mask(), {mlp.name: torch.ones(mlp.width).bool() for mlp in find_mlps(view.model)}
    mask[0] = False
    head = whole - count_parameters(Choice(view.model, view.heads, mask).smaller())["model"]
    next(iter(neurons.values()))[0] = False
    smaller = Choice(view.model, view.heads, view.heads.full_mask(), neurons).smaller()
    return {"head": head, "neuron": whole - count_parameters(smaller)["model"]}


def test_with_both_the_heads_that_stay_are_tuned(tiny, architecture):
    view, alone = scene(tiny, architecture)
    (draw,) = choose(BOTH.method, BOTH.options, view, [len(view.heads) // 2, len(view.heads) - 1])
    for _, found in draw.choices:
        choice = replace(found, model=view.model)
        wanted = slow_tuning(alone, choice, architecture, held_out_texts(view))
        for name, value in found.model.state_dict().items():
            torch.testing.assert_close(value, wanted[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case.on.name in ("bert", "llama-left") else [pytest.mark.slow])
        for case in cases([BOTH])
    ],
    ids=lambda case: f"{case.check.name}-{case.on.name}",
)
def test_both_keep_the_rules_for_all_methods(case):
    try:
        case.run()
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(("parts", "passes"), [("heads", (6, 6)), ("both", (12, 12))])
def test_all_levels_are_chosen_in_one_pass_or_with_neurons_two(tiny, parts, passes):
    model = tiny.model("bert")
    view = tiny.view(model, [tiny.batch(tiny.sentences(0, count=6))])
    with counting(model) as counted:
        ConfiguredMethod.of("kwon", parts=parts, recover="none").select(view, [0, 2, 4, 8])
    assert (counted.forward, counted.backward) == passes


@pytest.mark.parametrize("levels", [1, 3])
def test_tuning_takes_under_three_passes_a_level(tiny, levels):
    model = tiny.model("bert")
    view = tiny.view(model, [tiny.batch(tiny.sentences(0, count=6))])
    with counting(model) as counted:
        ConfiguredMethod.of("kwon").select(view, range(2, 2 + levels))
    assert counted.backward == 6 and 6 < counted.forward < 6 + 3 * 6 * levels


def test_information_that_is_not_finite_names_the_neuron(tiny, monkeypatch):
    view, _ = scene(tiny, "bert")
    information = neuron_information(view)
    name = list(information)[-1]
    information[name][3] = torch.inf
    monkeypatch.setattr("methods.kwon.neuron_information", lambda view: information)
    with pytest.raises(NonFiniteScore, match=rf"^method kwon: importance inf for neuron 3 of {name}$"):
        WITHOUT_TUNING.select(view, [4])
