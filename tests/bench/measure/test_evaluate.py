"""Every mask is evaluated on the physically smaller model, once, after it was checked against the gated one."""

from __future__ import annotations

import pytest
import torch

from bench.measure.cost import Stopwatch, counting
from bench.measure.evaluate import Evaluation, Evaluator, evaluate_ends
from bench.measure.exactness import TOLERANCE, NotExact, largest_gap
from bench.measure.view import view_of
from methods import METHODS
from methods.contract.choice import Choice
from methods.contract.choosing import Draw
from methods.heads import HeadMap, count_parameters, find_mlps, gated, remove_heads
from methods.heads.surgery.shrink import shrink


@pytest.fixture
def evaluate(tiny_task):
    """Evaluate choices, (draws, levels): an Evaluation of each."""
    cpu = torch.device("cpu")
    view = view_of(tiny_task.task, tiny_task.model, METHODS["none"], 0, 8, 1.0, cpu)

    def run(choices: list[list[Choice]], nested: bool = False) -> list[list[Evaluation]]:
        draws = [Draw(((choice.removed, choice) for choice in draw), nested) for draw in choices]
        with counting(tiny_task.model) as passes:
            evaluator = Evaluator(tiny_task.task, view, range(9), passes, Stopwatch(cpu), Stopwatch(cpu))
            rows = [[level.evaluation for level in levels] for _, levels in evaluator(draws)]
        assert passes.forward == 0 and evaluator.evaluation.seconds > 0
        assert 0 <= evaluator.gap <= TOLERANCE
        return rows

    return run


@pytest.fixture
def choices(tiny_task) -> list[list[Choice]]:
    """Two draws at three levels; four masks are distinct."""
    heads = HeadMap.of(tiny_task.model)
    full, none = torch.ones(8, dtype=torch.bool), torch.zeros(8, dtype=torch.bool)
    masks = [[full, torch.arange(8) % 2 == draw, none] for draw in (0, 1)]
    return [[Choice(tiny_task.model, heads, mask) for mask in draw] for draw in masks]


@pytest.fixture
def with_neurons(tiny_task) -> Choice:
    """Half of the heads, and uneven shares of the neurons."""
    generator = torch.Generator().manual_seed(0)
    neurons = {mlp.name: torch.rand(mlp.width, generator=generator) < 0.6 for mlp in find_mlps(tiny_task.model)}
    return Choice(tiny_task.model, HeadMap.of(tiny_task.model), torch.arange(8) % 2 == 0, neurons)


def test_identical_masks_are_evaluated_once(tiny_task, evaluate, choices, monkeypatch):
    evaluated = []
    answers = tiny_task.task.evaluate
    monkeypatch.setattr(tiny_task.task, "evaluate", lambda model: evaluated.append(model) or answers(model))
    rows = evaluate(choices)
    assert len(evaluated) == 4
    assert rows[0][0] is rows[1][0] and rows[0][2] is rows[1][2] and rows[0][1] is not rows[1][1]


def test_the_ends_of_a_curve_are_taken_over_from_an_earlier_method_with_what_they_took(tiny_task, choices, monkeypatch):
    cpu, evaluated = torch.device("cpu"), []
    view = view_of(tiny_task.task, tiny_task.model, METHODS["none"], 0, 8, 1.0, cpu)
    answers = tiny_task.task.evaluate
    monkeypatch.setattr(tiny_task.task, "evaluate", lambda model: evaluated.append(model) or answers(model))
    ends = evaluate_ends(tiny_task.task, tiny_task.model, view.heads, (0, 4, 8), cpu)
    assert list(evaluate_ends(tiny_task.task, tiny_task.model, view.heads, (4,), cpu)) == []
    rows, watches = [], []
    for draw, nested in zip(choices, (True, False), strict=True):
        with counting(tiny_task.model) as passes:
            evaluator = Evaluator(tiny_task.task, view, (), passes, Stopwatch(cpu), Stopwatch(cpu), ends=ends)
            drawn = Draw(((choice.removed, choice) for choice in draw), nested)
            rows += [[level.evaluation for level in levels] for _, levels in evaluator([drawn])]
        watches.append(evaluator.evaluation)
    assert len(evaluated) == 4  # both ends once, and one mask for each method
    assert rows[0][0] is rows[1][0] and rows[0][2] is rows[1][2]
    assert min(watch.seconds for watch in watches) > sum(taken.seconds for _, taken in ends.values()) > 0


def test_a_model_without_heads_that_lost_neurons_too_is_another_end(tiny_task, with_neurons):
    cpu = torch.device("cpu")
    view = view_of(tiny_task.task, tiny_task.model, METHODS["none"], 0, 8, 1.0, cpu)
    ends = evaluate_ends(tiny_task.task, tiny_task.model, view.heads, (0, 8), cpu)
    for neurons in (with_neurons.neurons, None, with_neurons.neurons):
        choice = Choice(tiny_task.model, with_neurons.heads, torch.zeros(8, dtype=torch.bool), neurons)
        with counting(tiny_task.model) as passes:
            evaluator = Evaluator(tiny_task.task, view, (), passes, Stopwatch(cpu), Stopwatch(cpu), ends=ends)
            ((_, (level,)),) = evaluator([Draw(iter([(8, choice)]), False)])
        assert level.evaluation.parameters == count_parameters(choice.smaller())


def test_quality_is_that_of_the_gated_model(tiny_task, evaluate, choices):
    rows = evaluate(choices)
    for draw, row in zip(choices, rows, strict=True):
        for choice, evaluation in zip(draw, row, strict=True):
            with gated(tiny_task.model, choice.mask):
                assert torch.equal(evaluation.outcomes.correct, tiny_task.task.evaluate(tiny_task.model).correct)


@pytest.mark.parametrize("order", [[4, 0, 7, 3, 2, 5, 1, 6], [5, 4, 2, 6, 7, 3, 1, 0]], ids=["layer 0", "layer 1"])
@pytest.mark.parametrize(("nested", "levels"), [(True, range(9)), (True, (0, 2, 5, 8)), (False, (3, 0, 8, 1))])
def test_a_model_that_gets_ever_smaller_is_each_smaller_model(tiny_task, evaluate, nested, levels, order, monkeypatch):
    """Logit by logit, at every level of a trajectory that empties a layer; and where the levels are in no order."""
    heads, task, order = HeadMap.of(tiny_task.model), tiny_task.task, torch.tensor(order)
    draw = [Choice(tiny_task.model, heads, ~torch.isin(torch.arange(8), order[:level])) for level in levels]
    batch = task.probe(8, torch.device("cpu"))
    monkeypatch.setattr(task, "evaluate", torch.no_grad()(lambda model: task.logits(model, batch)))
    (row,) = evaluate([draw], nested)
    for choice, evaluation in zip(draw, row, strict=True):
        smaller = choice.smaller()
        torch.testing.assert_close(evaluation.outcomes, task.evaluate(smaller), rtol=1e-4, atol=1e-5)
        assert evaluation.parameters == count_parameters(smaller)


def test_parameters_are_those_of_the_smaller_model(tiny_task, evaluate, choices):
    full, half, none = evaluate(choices)[0]
    # Two layers of 4 heads of 8 dimensions, 32 wide: 3 * (32 + 1) * 8 + 8 * 32 parameters a head.
    a_head = 3 * (32 + 1) * 8 + 8 * 32
    total = sum(parameter.numel() for parameter in tiny_task.model.parameters())
    assert full.parameters["model"] == total
    assert half.parameters["model"] == total - 4 * a_head
    assert none.parameters["model"] == total - 8 * a_head
    assert full.megabytes["model"] == pytest.approx(total * 4 / 2**20)


def test_a_right_removal_has_hardly_a_gap(tiny_task, choices):
    choice = choices[0][1]
    assert 0 <= largest_gap(tiny_task.task, choice, choice.smaller()) <= TOLERANCE


def test_neurons_are_gated_and_removed_alike(tiny_task, with_neurons):
    smaller = with_neurons.smaller()
    assert 0 <= largest_gap(tiny_task.task, with_neurons, smaller) <= TOLERANCE
    heads_alone = remove_heads(tiny_task.model, with_neurons.mask)
    assert count_parameters(smaller)["model"] < count_parameters(heads_alone)["model"]
    with pytest.raises(NotExact):
        largest_gap(tiny_task.task, with_neurons, heads_alone)


def test_choices_that_differ_in_neurons_alone_are_evaluated_apart(evaluate, with_neurons):
    heads_alone = Choice(with_neurons.model, with_neurons.heads, with_neurons.mask)
    rows = evaluate([[with_neurons, heads_alone]])
    assert rows[0][0].parameters["model"] < rows[0][1].parameters["model"]


def test_a_wrong_removal_is_found_out(tiny_task, choices):
    wrong = remove_heads(tiny_task.model, ~choices[0][1].mask)
    with pytest.raises(NotExact, match="with 4 of 8 units removed"):
        largest_gap(tiny_task.task, choices[0][1], wrong)


def test_a_gap_that_is_not_a_number_is_no_small_gap(tiny_task, choices):
    wrong = choices[0][1].smaller()
    with torch.no_grad():
        wrong.classifier.bias[0] = torch.nan
    with pytest.raises(NotExact):
        largest_gap(tiny_task.task, choices[0][1], wrong)


def test_a_bug_in_removing_fails_every_cell_that_removes(place, monkeypatch, capsys):
    def forgets_the_last_head(model, mask, heads):
        shrink(model, mask, heads)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("attention.output.dense.weight") and not mask.all():
                    parameter[:, -1:] = 0

    monkeypatch.setattr("methods.contract.choice.shrink", forgets_the_last_head)
    assert place.run("--methods", "none,michel") == 1
    records = place.records()
    assert records["none/seed0"]["status"] == "done"
    assert records["michel/seed0"]["reason"].startswith("NotExact: with 4 of 8 units removed")
    assert "NotExact" in capsys.readouterr().out


def test_examples_are_counted_through_forward_and_backward(tiny_task):
    batches = tiny_task.task.calibration(0, 100, torch.device("cpu"))
    with counting(tiny_task.model) as passes:
        for batch in batches:
            tiny_task.task.logits(tiny_task.model, batch)
    assert (passes.forward, passes.backward) == (100, 0)
    tiny_task.model.requires_grad_(True)
    with counting(tiny_task.model) as passes:
        for batch in batches:
            tiny_task.task.loss(tiny_task.task.logits(tiny_task.model, batch), batch).sum().backward()
    assert (passes.forward, passes.backward) == (100, 100)
    tiny_task.task.logits(tiny_task.model, batches[0])
    assert (passes.forward, passes.backward) == (100, 100)  # counts only inside


def test_costs_of_scoring_stand_in_the_record_apart_from_those_of_evaluation(place):
    # 128 calibration examples; michel looks once, its greedy schedule once a unit, of 8.
    assert place.run("--methods", "none,random,michel,michel:recompute=1") == 0
    passes = {name: tuple(record["result"]["passes"].values()) for name, record in place.records().items()}
    assert passes == {
        "none/seed0": (0, 0),
        "random/seed0": (0, 0),
        "michel/seed0": (128, 128),
        "michel_recompute=1/seed0": (8 * 128, 8 * 128),
    }
