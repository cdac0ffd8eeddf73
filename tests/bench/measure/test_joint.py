"""A joint method through a whole run: its own weights are measured, and its cost is that of training."""

from __future__ import annotations

import copy
import weakref

import pytest
import torch
from safetensors.numpy import load_file

from bench.analysis.curves import removes
from bench.measure.cost import Stopwatch, counting
from bench.measure.evaluate import Evaluator, evaluate_model
from bench.records.storage.current import finished, read_current
from methods import Trained, View
from methods.contract.choice import Choice
from methods.contract.choosing import choose
from methods.contract.method import Method
from methods.heads import HeadMap

JOINT = '''
import copy
from typing import Annotated
import torch
from methods import Trained, joint

@joint("plain-joint", source="test", variants={"frozen-joint": {"weights": False}})
def plain(view, budgets, *, weights: Annotated[bool, "train weights"] = True):
    """Train the weights with the first units gated off, as long as it may."""
    for keep in budgets:
        model = copy.deepcopy(view.model).train()
        if weights:
            model.requires_grad_(True)
            optimizer, schedule = view.training.optimizer(model)
            schedule.base_lrs = [0.01] * len(schedule.base_lrs)  # enough for a few steps to be seen
            batches = view.training.batches()
            for _ in range(view.training.steps):
                batch = next(batches)
                view.loss_of_logits(view.forward(model, batch), batch).mean().backward()
                optimizer.step(), schedule.step(), optimizer.zero_grad(set_to_none=True)
            model.requires_grad_(False)
        mask = torch.arange(len(view.heads)) >= len(view.heads) - keep
        yield Trained(mask, model.eval() if weights else view.model, {"steps": view.training.steps})
'''


@pytest.fixture
def run(place, plugin):
    """Run the methods above, and none, with more flags; the records."""
    plugin(JOINT)

    def records(*flags: str):
        assert place.run("--methods", "plain-joint,frozen-joint,none", *flags) == 0
        return place.records()

    return records


def test_its_weights_are_measured_and_its_cost_is_training(run):
    records = run("--training", "0.5")
    plain, frozen, none = (records[f"{name}/seed0"]["result"] for name in ("plain-joint", "frozen-joint", "none"))
    assert plain["quality"][0][0] == none["quality"][0][0]  # with nothing removed it is the model as it was
    assert plain["quality"] != frozen["quality"]
    assert plain["passes"] == {"forward": 0, "backward": 0}
    steps = plain["method_training"]["reports"]["4"]["steps"]
    assert steps == 8  # half of three epochs of 148 texts in batches of 32
    budgets = len(plain["method_training"]["reports"])
    seen = plain["method_training"]["passes"]
    # One epoch, then three batches of the next, of which one may be the smaller one, of 20 texts.
    assert seen["forward"] == seen["backward"] and seen["forward"] / budgets in (148 + 3 * 32, 148 + 2 * 32 + 20)
    assert frozen["method_training"]["passes"] == {"forward": 0, "backward": 0}
    measured = records["plain-joint/seed0"]["measured"]
    assert measured["scoring_seconds"] == 0 and measured["method_training_seconds"] > 0


@pytest.mark.slow
def test_the_share_of_training_is_part_of_its_key_and_of_no_other(run):
    before = {name: record["key"] for name, record in run("--training", "0.1").items()}
    after = {name: record["key"] for name, record in run("--training", "0.2").items()}
    assert {name for name in before if before[name] != after[name]} == {"plain-joint/seed0", "frozen-joint/seed0"}


def test_neurons_removed_lie_beside_the_record(place):
    assert place.run("--methods", "random:draws=2,parts=both,allocation=layer") == 0
    (name,) = place.records()
    arrays = load_file(next((place.out / "records").rglob("*.safetensors")))
    orders = {key: order for key, order in arrays.items() if key.startswith("neurons.")}
    assert len(orders) == 2 * 2  # draws, layers
    assert all(sorted(order.tolist()) == list(range(len(order))) for order in orders.values())
    result = place.records()[name]["result"]
    assert result["neurons"] and result["gap"] <= 1e-5
    heads = place.run("--methods", "random:draws=2")
    assert heads == 0
    other = next(record for key, record in place.records().items() if key != name)["result"]
    assert result["parameters"][1]["model"] < other["parameters"][1]["model"] < result["parameters"][0]["model"]


@pytest.mark.slow
def test_neurons_that_a_joint_method_removes_are_kept_beside_the_record(place):
    assert place.run("--training", "0.1", "--methods", "amp-recovered,amp-recovered:parts=neurons,amp") == 0
    arrays = {path.parent.name: load_file(path) for path in (place.out / "records").rglob("*.safetensors")}
    records = {record["cell"]["label"]: record for record in place.records().values()}
    both, alone, amp = records["amp-recovered"], records["amp-recovered:parts=neurons"], records["amp"]
    removed = {record.cell.label: removes(record) for record in finished(read_current(place.out)[0])}
    both_parts = "heads and neurons"
    assert removed == {"amp-recovered": both_parts, "amp-recovered:parts=neurons": "neurons", "amp": both_parts}
    assert both["result"]["parameters"] == amp["result"]["parameters"]
    assert alone["result"]["kept"] == [list(range(8))] * 3
    assert both["result"]["quality"][0][0] == amp["result"]["quality"][0][0]
    orders = {name.split(".", 2)[2]: order for name, order in arrays["amp"].items() if name.startswith("neurons.0.")}
    assert [str(order.dtype) for order in orders.values()] == ["int16"] * 2  # layers
    for label in (both["cell"]["label"], "amp-recovered_parts=neurons"):
        for name, order in orders.items():
            whole, half, nothing = arrays[label][f"neurons.{name}"]
            assert whole.all() and not nothing.any()
            assert sorted((~half).nonzero()[0]) == sorted(order[: len(order) // 2])


def test_weights_are_let_go_once_they_are_measured(tiny_task):
    """However many budgets are asked for, one trained model is held at a time."""
    heads, alive = HeadMap.of(tiny_task.model), weakref.WeakSet()
    most = 0

    def train(view, budgets):
        nonlocal most
        for keep in budgets:
            most = max(most, len(alive))
            model = copy.deepcopy(view.model)
            alive.add(model)
            yield Trained(torch.arange(len(heads)) < keep, model)

    removed = range(len(heads) + 1)
    view = View(tiny_task.model, heads, [], heads.full_mask(), torch.Generator(), lambda *_: None, lambda *_: None)
    method = Method("m", "joint", train, {}, "test", False, "m")
    cpu = torch.device("cpu")
    with counting(tiny_task.model) as passes:
        evaluator = Evaluator(tiny_task.task, view, {2, 5}, passes, Stopwatch(cpu), Stopwatch(cpu))
        ((_, levels),) = evaluator(choose(method, {}, view, removed))
    assert most <= 1 and not alive
    assert passes.forward == 0  # none is counted of the evaluation
    assert evaluator.evaluation.seconds > 0 and evaluator.choosing.seconds > 0
    assert [int(level.mask.sum()) for level in levels] == [len(heads) - count for count in removed]
    for level in levels:
        alike = evaluate_model(tiny_task.task, Choice(tiny_task.model, heads, level.mask).smaller())
        assert torch.equal(level.evaluation.outcomes.correct, alike.outcomes.correct)
        assert level.evaluation.parameters == alike.parameters


def test_a_method_can_take_the_place_of_fine_tuning_where_there_is_any(place):
    methods = ("--methods", "random-retrained:start=pretrained", "--seeds", "1", "--levels", "0.5")
    assert place.run(*methods, "--finetune") == 0
    (record,) = place.records().values()
    assert "result" in record
    assert record["cell"]["options"]["start"] == "pretrained"


def test_a_model_taken_as_it_is_has_no_fine_tuning_to_take_the_place_of(place, complaint):
    flags = ["--task", "classification", "--data", place.data, "--model", place.model]
    expected = (
        "random-retrained:start=pretrained: tiny-bert is taken as it is, so there is no training to take the place of: "
        "add --finetune, or leave out start=pretrained"
    )
    run = complaint("run", *flags, "--methods", "none,random-retrained:start=pretrained", "--out", place.out)
    assert run == expected and not place.out.exists()
    out = place.out / "smaller"
    prune = complaint("prune", *flags, "--method", "random-retrained:start=pretrained", "--keep", "0.5", "--out", out)
    assert prune == expected
