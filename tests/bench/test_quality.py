"""Every mask is evaluated on the physically smaller model, once, after it was checked against the gated one."""

from __future__ import annotations

import pytest
import torch

from bench import quality
from bench.cost import counting
from methods.heads import HeadMap, gated, remove_heads


@pytest.fixture
def heads(tiny_task) -> HeadMap:
    return HeadMap.of(tiny_task.model)


@pytest.fixture
def masks() -> torch.Tensor:
    """Two draws at three levels; four masks are distinct."""
    full, none = torch.ones(8, dtype=torch.bool), torch.zeros(8, dtype=torch.bool)
    return torch.stack([torch.stack([full, torch.arange(8) % 2 == draw, none]) for draw in (0, 1)])


def test_identical_masks_are_evaluated_once(tiny_task, heads, masks, monkeypatch):
    evaluated = []
    outcomes = tiny_task.task.outcomes
    monkeypatch.setattr(tiny_task.task, "outcomes", lambda model: evaluated.append(model) or outcomes(model))
    rows = quality.evaluate(tiny_task.task, tiny_task.model, heads, masks)
    assert len(evaluated) == 4
    assert rows[0][0] is rows[1][0] and rows[0][2] is rows[1][2] and rows[0][1] is not rows[1][1]


def test_quality_is_that_of_the_gated_model(tiny_task, heads, masks):
    rows = quality.evaluate(tiny_task.task, tiny_task.model, heads, masks)
    for draw, row in zip(masks, rows, strict=True):
        for mask, evaluation in zip(draw, row, strict=True):
            with gated(tiny_task.model, mask.float(), heads):
                assert torch.equal(evaluation.outcomes, tiny_task.task.outcomes(tiny_task.model))


def test_parameters_are_those_of_the_smaller_model(tiny_task, heads, masks):
    full, half, none = quality.evaluate(tiny_task.task, tiny_task.model, heads, masks)[0]
    # Two layers of 4 heads of 8 dimensions, 32 wide: 3 * (32 + 1) * 8 + 8 * 32 parameters a head.
    a_head = 3 * (32 + 1) * 8 + 8 * 32
    total = sum(parameter.numel() for parameter in tiny_task.model.parameters())
    assert full.parameters["model"] == total
    assert half.parameters["model"] == total - 4 * a_head
    assert none.parameters["model"] == total - 8 * a_head
    assert full.megabytes["model"] == pytest.approx(total * 4 / 2**20)


def test_a_right_removal_has_hardly_a_gap(tiny_task, heads, masks):
    mask = masks[0, 1]
    smaller = remove_heads(tiny_task.model, mask, heads)
    assert 0 <= quality.gap(tiny_task.task, tiny_task.model, heads, smaller, mask) <= quality.TOLERANCE


def test_a_wrong_removal_is_found_out(tiny_task, heads, masks):
    wrong = remove_heads(tiny_task.model, ~masks[0, 1], heads)
    with pytest.raises(quality.NotExact, match="with 4 of 8 units removed"):
        quality.gap(tiny_task.task, tiny_task.model, heads, wrong, masks[0, 1])


def test_a_gap_that_is_not_a_number_is_no_small_gap(tiny_task, heads, masks):
    wrong = remove_heads(tiny_task.model, masks[0, 1], heads)
    with torch.no_grad():
        wrong.classifier.bias[0] = torch.nan
    with pytest.raises(quality.NotExact):
        quality.gap(tiny_task.task, tiny_task.model, heads, wrong, masks[0, 1])


def test_a_bug_in_removing_fails_every_cell_that_removes(place, monkeypatch, capsys):
    def forgets_the_last_head(model, mask, heads):
        smaller = remove_heads(model, mask, heads)
        with torch.no_grad():
            for name, parameter in smaller.named_parameters():
                if name.endswith("attention.output.dense.weight") and not mask.all():
                    parameter[:, -1:] = 0
        return smaller

    monkeypatch.setattr("bench.cell.remove_heads", forgets_the_last_head)
    assert place.run("--methods", "none,michel") == 1
    records = place.records()
    assert records["none/seed0"]["status"] == "done"
    assert records["michel/seed0"]["reason"].startswith("NotExact: with 2 of 8 units removed")
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
    assert place.run("--methods", "none,random,michel,michel:schedule=greedy") == 0
    passes = {name: tuple(record["result"]["passes"].values()) for name, record in place.records().items()}
    assert passes == {
        "none/seed0": (0, 0),
        "random/seed0": (0, 0),
        "michel/seed0": (128, 128),
        "michel_schedule=greedy/seed0": (8 * 128, 8 * 128),
    }
