"""Every check finds the fault that it is there for, and names it."""

from __future__ import annotations

import copy
import random
import sys
from dataclasses import replace

import pytest
import torch

from bench.suites.plugins import load_plugins
from methods import METHODS, Trained, joint, scorer, selector
from methods.checks import CHECKS, TINY_MODELS, Case, ConfiguredMethod, Failure, NotApplicable, cases
from methods.checks.compare import bits
from methods.contract.choosing import select
from methods.heads import find_mlps
from methods.training.loop import training_of

load_plugins()
BY_NAME = {check.name: check for check in CHECKS}
BERT, ALBERT = TINY_MODELS[:2]
SCORES = torch.tensor([5.0, 2.0, 8.0, 1.0, 7.0, 3.0, 6.0, 4.0])


def constant(view):
    """Any importances, the same for the same map of heads."""
    return SCORES[: len(view.heads)].clone()


def first(view, keep):
    return torch.arange(len(view.heads)) < keep


def layer(view):
    return view.model.get_submodule("bert.encoder.layer.0.attention.self.query")


def too_few(view):
    return torch.ones(3)


def complex_scores(view):
    return constant(view).to(torch.complex64)


def listed_scores(view):
    return constant(view).tolist()


def scores_of_each_text(view):
    return constant(view).expand(view.examples, -1)


def reads_training(view):
    next(iter(view.training.batches()))
    return constant(view)


def one_too_many(view, keep):
    return first(view, keep + 1)


def wrong_dtype(view, keep):
    return first(view, keep).float()


def one_budget_only(view, budgets):
    yield Trained(first(view, budgets[0]), view.model)


def trains_after_all(view, budgets):
    for keep in budgets:
        training_of(view)
        yield Trained(first(view, keep), copy.deepcopy(view.model))


def keeps_all_neurons(view, budgets):
    for _ in budgets:
        neurons = {mlp.name: torch.ones(mlp.width, dtype=torch.bool) for mlp in find_mlps(view.model)}
        yield Trained(view.heads.full_mask(), view.model, neurons=neurons)


def global_draws(view):
    return torch.rand(len(view.heads))


def global_draws_hidden(view):
    with torch.random.fork_rng():
        return torch.rand(len(view.heads))


def python_draws(view):
    return torch.tensor([random.random() for _ in range(len(view.heads))])


def python_draws_in_training(view, budgets):
    for keep in budgets:
        model = copy.deepcopy(view.model)
        with torch.no_grad():
            next(model.parameters())[0, 0] = random.random()
        yield Trained(first(view, keep), model)


def counts_padding(view):
    with torch.no_grad():
        return constant(view) * sum(batch.inputs["input_ids"].shape[1] for batch in view.batches)


def mean_of_batches(view):
    with torch.no_grad():
        return constant(view) * sum(view.loss(batch).mean() for batch in view.batches) / len(view.batches)


def chooses_by_batches(view, keep):
    return first(view, keep).roll(len(view.batches))


def four_heads_a_layer(view):
    assert all(site.num_heads == 4 for site in view.heads.sites), "a layer has lost heads"
    return constant(view)


def divides_by_fewest_heads(view):
    left = torch.bincount(view.heads.site_of_unit[view.kept], minlength=len(view.heads.sites)).min()
    return constant(view) * left / left


def turns_around(view):
    return constant(view) * (1 if len(view.heads) == 8 else -1)


def remembers_scores(view):
    if view.memory is None:
        return _norms(view)
    left = torch.tensor([sum(site.num_heads for site in view.heads.sites)])
    return _norms(view) * (1 if left == view.memory.setdefault("first", left) else -1)


def _norms(view):
    parts = []
    for index, site in enumerate(view.heads.sites):
        weight = view.model.get_submodule(site.output).weight.detach()
        parts.append(view.per_unit(index, weight.unflatten(1, (site.num_heads, site.head_dim)).norm(dim=(0, 2))))
    return torch.cat(parts)


def float32_only(view):
    return constant(view) @ torch.eye(len(view.heads), dtype=next(view.model.parameters()).dtype)


def too_coarse(view):
    return constant(view) * (1 if next(view.model.parameters()).dtype == torch.float32 else 2)


def hides_nan(view):
    with torch.no_grad():
        return constant(view) + sum(view.loss(batch).nan_to_num().sum() for batch in view.batches)


def trains_on_nan(view, budgets):
    with torch.no_grad():
        loss = view.loss(view.batches[0]).sum()
    for keep in budgets:
        yield Trained(first(view, keep).roll(int(loss.isnan())), view.model)


def leaves_hook(view):
    layer(view).register_forward_hook(lambda *_: None)
    return constant(view)


def changes_weight(view):
    with torch.no_grad():
        layer(view).weight[1, 1] += 1e-7
    return constant(view)


def changes_buffer(view):
    view.model.get_buffer("bert.embeddings.position_ids").add_(1)
    return constant(view)


def leaves_gradient(view):
    layer(view).weight.grad = torch.zeros_like(layer(view).weight)
    return constant(view)


def zeroes_gradients(view):
    view.model.zero_grad()
    return constant(view)


def requires_gradients(view):
    view.model.requires_grad_(True)
    return constant(view)


def trains_dropout(view):
    view.model.bert.train()
    return constant(view)


def leaves_eager(view):
    view.model.set_attn_implementation("eager")
    return constant(view)


def replaces_forward(view):
    layer(view).forward = lambda x: x
    return constant(view)


def changes_scaling(view):
    view.model.get_submodule("bert.encoder.layer.0.attention.self").scaling = 5.0
    return constant(view)


def leaves_gradients_off(view):
    torch.set_grad_enabled(False)
    return constant(view)


def removes_padding(view):
    view.batches[0].inputs.pop("attention_mask")
    return constant(view)


def marks_kept(view):
    view.kept[0] = False
    return constant(view)


def hook_until_the_end(view):
    hook = layer(view).register_forward_hook(lambda *_: None)
    view.logits(view.batches[0])
    hook.remove()
    return constant(view)


def trains_on(view, budgets):
    model = copy.deepcopy(view.model)
    for keep in budgets:
        with torch.no_grad():
            model.get_parameter("classifier.bias").add_(1)
        yield Trained(first(view, keep), model)


def in_training_mode(view, budgets):
    return (Trained(first(view, keep), copy.deepcopy(view.model).train()) for keep in budgets)


def hooked(view, budgets):
    for keep in budgets:
        model = copy.deepcopy(view.model)
        model.classifier.register_forward_hook(lambda *_: None)
        yield Trained(first(view, keep), model)


def nothing_trained(view, budgets):
    return iter(())


def reports_nan(view, budgets):
    return (Trained(first(view, keep), view.model, {"temperature": float("nan")}) for keep in budgets)


Q = r"bert\.encoder\.layer\.0\.attention\.self\.query"
HEAD = r"head \d of bert\.encoder\.layer\.\d\.attention\.self"
FAULTS = [
    (scorer, too_few, "every-budget-is-met", r"importance of shape \(3,\), expected \(8,\)"),
    (scorer, complex_scores, "every-budget-is-met", "the importance is of torch.complex64, expected real numb"),
    (scorer, listed_scores, "every-budget-is-met", r"is a list, expected a tensor of shape \(8,\)"),
    (selector, one_too_many, "every-budget-is-met", "mask keeps 8 units, the budget is 7"),
    (selector, wrong_dtype, "every-budget-is-met", r"mask of shape \(8,\) and torch\.float32"),
    (joint, one_budget_only, "every-budget-is-met", "gave results for 1 of 8 budgets"),
    (joint, keeps_all_neurons, "every-budget-is-met", r"12 of 12 neurons of \S+ are kept, expected a share of 0\.8"),
    (scorer, global_draws, "same-seed-same-result", f"{HEAD} is kept in one of two equal runs only.*view.generator"),
    (scorer, global_draws_hidden, "same-seed-same-result", f"{HEAD} is kept in one of two equal runs"),
    (scorer, python_draws, "same-seed-same-result", f"{HEAD} is kept in one of two equal runs"),
    (joint, python_draws_in_training, "same-seed-same-result", "word_embeddings.weight differs between two equal runs"),
    (
        scorer,
        counts_padding,
        "padding-and-batching-do-not-matter",
        f"texts in one batch against one at a time: .* for {HEAD}",
    ),
    (scorer, mean_of_batches, "padding-and-batching-do-not-matter", rf"for {HEAD} \(8 of 8 differ\)"),
    (selector, chooses_by_batches, "padding-and-batching-do-not-matter", f"against one at a time: .* for {HEAD}"),
    (scorer, four_heads_a_layer, "layers-may-have-no-heads", r"AssertionError: a layer has.*test_rules\.py:\d"),
    (scorer, divides_by_fewest_heads, "layers-may-have-no-heads", f"without heads: importance nan for {HEAD}"),
    (scorer, turns_around, "layers-may-have-no-heads", f"{HEAD} is below {HEAD} with .* above it with them removed"),
    (scorer, remembers_scores, "greedy-scores-what-is-left", rf"step 2 removes {HEAD} \(.*\) before {HEAD}"),
    (
        scorer,
        scores_of_each_text,
        "greedy-scores-what-is-left",
        "6 rows of importances without any random draw",
    ),
    (scorer, reads_training, "every-budget-is-met", r"NoneType.*'batches' \(.*test_rules\.py:\d"),
    (scorer, float32_only, "works-in-bfloat16", r"RuntimeError: expected .* same dtype.*test_rules\.py:\d"),
    (scorer, too_coarse, "works-in-bfloat16", f"bfloat16 against float32: 10 instead of 5|16 instead of 8 for {HEAD}"),
    (scorer, hides_nan, "nan-is-reported", f"weight of {Q} nan the result is finite but differs"),
    (joint, trains_on_nan, "nan-is-reported", "the result is finite but differs"),
    (scorer, leaves_hook, "no-side-effects", rf"number of forward hooks of {Q} was 0, is 1"),
    (
        scorer,
        changes_weight,
        "no-side-effects",
        rf"\(sdpa attention, the model is frozen\): weight {Q}\.weight was changed",
    ),
    (scorer, changes_buffer, "no-side-effects", r"buffer bert\.embeddings\.position_ids was changed"),
    (scorer, leaves_gradient, "no-side-effects", rf"gradient of {Q}\.weight was None, is set"),
    (scorer, zeroes_gradients, "no-side-effects", r"eager.*gradient of \S+ was set, is None; .* and \d+ more"),
    (scorer, requires_gradients, "no-side-effects", r"requires_grad of \S+ was False, is True"),
    (scorer, trains_dropout, "no-side-effects", r"training mode of bert was False, is True"),
    (scorer, leaves_eager, "no-side-effects", r"attention implementation of the model was sdpa, is eager"),
    (scorer, replaces_forward, "no-side-effects", rf"attribute forward of {Q} is new"),
    (scorer, changes_scaling, "no-side-effects", r"attribute scaling of \S+ was 0\.\d+, is 5\.0"),
    (scorer, leaves_gradients_off, "no-side-effects", "gradients being on was True, is False"),
    (scorer, removes_padding, "no-side-effects", "attention_mask of batch 0 is gone"),
    (scorer, marks_kept, "no-side-effects", "view.kept was changed"),
    (scorer, global_draws, "no-side-effects", "torch's global random state was changed"),
    (scorer, python_draws, "no-side-effects", "Python's global random state was changed"),
    (
        scorer,
        hook_until_the_end,
        "no-side-effects-after-an-error",
        rf"raised an error\): number of forward hooks of {Q}",
    ),
    (joint, trains_on, "trained-models-are-ready", "bias of the model for 7 of 8 units changed after it was yielded"),
    (joint, in_training_mode, "trained-models-are-ready", "the model is in training mode in the model for 7 of 8"),
    (joint, hooked, "trained-models-are-ready", "classifier has a hook in the model for 7 of 8 units"),
    (joint, nothing_trained, "trained-models-are-ready", "0 results for the 3 budgets"),
    (
        joint,
        reports_nan,
        "trained-models-are-ready",
        "report of the model for 7 of 8 units .* not finite: {'temperature': nan}",
    ),
]


@pytest.fixture
def register():
    """Register a method for one test."""

    def add(shape, function, name="faulty", **settings) -> ConfiguredMethod:
        shape(name, source="test", **settings)(function)
        return ConfiguredMethod.of(name)

    before = dict(METHODS)
    yield add
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize(
    ("numbers", "said"), [([9, 9], "gives 9, expected a whole"), ([2.0, 2.0], "gives 2.0"), ([2, 3], "gives 2 and 3")]
)
def test_a_fault_of_a_methods_own_number_is_found(register, numbers, said):
    given = iter(numbers)
    faulty = register(selector, first, own_number=lambda view: next(given))
    with pytest.raises(Failure, match=said):
        Case(BY_NAME["own-number-is-a-budget"], faulty, BERT).run()
    assert "own-number-is-a-budget" not in {
        case.check.name for case in cases([ConfiguredMethod.of("fisher-rearranged")])
    }


@pytest.mark.parametrize(("shape", "function", "check", "said"), FAULTS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_fault_is_found_and_named(register, shape, function, check, said):
    case = Case(BY_NAME[check], register(shape, function), BERT)
    before = torch.get_rng_state(), random.getstate(), torch.is_grad_enabled()
    with pytest.raises(Failure, match=said):
        case.run()
    assert torch.equal(before[0], torch.get_rng_state()) and before[1:] == (random.getstate(), torch.is_grad_enabled())
    assert case.command == f"headbench check faulty --only {check} --on bert"


def exits(view):
    sys.exit(0)


def gives_nothing(view):
    return None


def yields_pairs(view, budgets):
    yield from ((first(view, keep), view.model) for keep in budgets)


@pytest.mark.parametrize(
    ("shape", "function", "check", "said"),
    [
        (scorer, exits, "every-budget-is-met", r"SystemExit: 0 \(.*test_rules\.py:\d"),
        (scorer, gives_nothing, "padding-and-batching-do-not-matter", "gives a NoneType, expected a tensor with one"),
        (scorer, listed_scores, "padding-and-batching-do-not-matter", "gives a list, expected a tensor with one"),
        (scorer, complex_scores, "works-in-bfloat16", "gives numbers of torch.complex64, expected real ones"),
        (joint, yields_pairs, "trained-models-are-ready", "gives a tuple, expected a Trained for each budget"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_result_of_a_wrong_kind_is_told_in_one_way(register, shape, function, check, said):
    with pytest.raises(Failure, match=said):
        Case(BY_NAME[check], register(shape, function), BERT).run()


def gives_nan(view):
    return constant(view).masked_fill(torch.arange(len(view.heads)) == 2, torch.nan)


def trains_to_nan(view, budgets):
    for keep in budgets:
        model = copy.deepcopy(view.model)
        with torch.no_grad():
            next(model.parameters()).fill_(torch.nan)
        yield Trained(first(view, keep), model)


def test_nan_is_told_as_such_and_not_as_a_difference_between_equal_runs(register):
    score, trained = register(scorer, gives_nan, "score"), register(joint, trains_to_nan, "trained")
    Case(BY_NAME["padding-and-batching-do-not-matter"], score, BERT).run()
    with pytest.raises(Failure, match="importance nan for head 2 of bert"):
        Case(BY_NAME["every-budget-is-met"], score, BERT).run()
    Case(BY_NAME["same-seed-same-result"], trained, BERT).run()
    with pytest.raises(Failure, match="logits of the model for 7 of 8 units are not finite"):
        Case(BY_NAME["trained-models-are-ready"], trained, BERT).run()


def test_nan_has_the_bits_of_nan_and_another_type_or_shape_is_another_tensor():
    one = torch.tensor([1.0, torch.nan])
    assert bits(one) == bits(one.clone())
    for other in (one.view(2, 1), one.to(torch.float64), one.view(torch.int32), torch.tensor([1.0, 2.0])):
        assert bits(one) != bits(other)


def test_every_check_can_fail():
    elsewhere = {"works-on-cuda", "own-number-is-a-budget"}
    assert {check for _, _, check, _ in FAULTS} | elsewhere == set(BY_NAME)


def test_a_gpu_is_used_where_there_is_one(register, monkeypatch):
    """A stand-in: what the check asks of the GPU is asked of the CPU, by a method that answers otherwise each time."""
    calls = []

    def another_each_time(view):
        calls.append(view)
        return constant(view) + len(calls)

    subject = register(scorer, another_each_time)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_rng_state", lambda: torch.zeros(1))
    view = type(BERT).view
    monkeypatch.setattr(type(BERT), "view", lambda self, **settings: view(self, **settings | {"device": "cpu"}))
    with pytest.raises(Failure, match=f"CUDA against CPU: .* for {HEAD}"):
        BY_NAME["works-on-cuda"].function(subject, BERT)


def test_a_head_that_comes_back_is_found(register, monkeypatch):
    """The run sees to it that none does: here it does not."""

    def reversed_masks(method, options, view, removed):
        chosen = select(method, options, view, removed)
        back = [
            replace(choice, mask=choice.mask.flip(0)) if place % 2 else choice
            for place, choice in enumerate(chosen.choices[0])
        ]
        return replace(chosen, choices=[back])

    monkeypatch.setattr("methods.checks.case.select", reversed_masks)
    with pytest.raises(Failure, match=f"{HEAD} is kept again when 2 units are removed"):
        Case(BY_NAME["every-budget-is-met"], register(scorer, constant), BERT).run()


def test_a_method_that_is_said_to_be_training_free_trains_nothing(register):
    ready = BY_NAME["trained-models-are-ready"]
    Case(ready, register(joint, trains_after_all, "trains"), BERT).run()
    with pytest.raises(Failure, match="the view has no training examples"):
        Case(ready, register(joint, trains_after_all, training_free=True), BERT).run()


@pytest.mark.parametrize(
    ("name", "options", "check", "reason"),
    [
        ("random", {"draws": 1}, "greedy-scores-what-is-left", "draws at random"),
        ("gnorm", {"variant": "batch"}, "padding-and-batching-do-not-matter", "depends on the batch"),
    ],
)
def test_a_check_that_does_not_apply_gives_the_reason(name, options, check, reason):
    with pytest.raises(NotApplicable, match=reason):
        Case(BY_NAME[check], ConfiguredMethod.of(name, **options), BERT).run()


@pytest.mark.parametrize("name", ["random", "amp"])  # several draws, and neurons
def test_a_score_that_greedy_cannot_follow_must_be_refused(name, monkeypatch):
    case = Case(BY_NAME["greedy-scores-what-is-left"], ConfiguredMethod.of(name), BERT)
    case.run()
    monkeypatch.setattr("methods.checks.case.select", lambda method, options, view, removed: None)
    with pytest.raises(Failure, match="a greedy schedule is not refused"):
        case.run()


def test_cases_are_about_methods_of_the_right_shape():
    made = {
        name: {(case.check.name, case.on.name) for case in cases([ConfiguredMethod.of(name)], [BERT, ALBERT])}
        for name in ("michel", "none", "voita")
    }
    some = "greedy-scores-what-is-left", "padding-and-batching-do-not-matter", "trained-models-are-ready"
    assert {name: [(check, "bert") in found for check in some] for name, found in made.items()} == {
        "michel": [True, True, False],
        "none": [False, True, False],
        "voita": [False, False, True],
    }
    without_heads = [
        ("layers-may-have-no-heads", model) for model in ("bert", "albert")
    ]  # albert: nothing would be left
    assert {name: [case in found for case in without_heads] for name, found in made.items()} == {
        "michel": [True, True],
        "none": [True, False],
        "voita": [True, False],
    }


def test_a_method_may_depend_on_the_batch_if_it_says_so(register):
    check = BY_NAME["padding-and-batching-do-not-matter"]
    with pytest.raises(NotApplicable):
        Case(check, register(scorer, mean_of_batches, batch_dependent={}), BERT).run()
    with pytest.raises(Failure):
        Case(check, register(scorer, mean_of_batches, "other", batch_dependent={"inverse": True}), BERT).run()


def test_a_function_is_called_once_whatever_its_names(register):
    register(scorer, constant, variants={"backwards": {"inverse": True}})
    some = list(
        cases([ConfiguredMethod.of("faulty"), ConfiguredMethod.of("backwards"), ConfiguredMethod.of("none")], [BERT])
    )
    made = [[case.check for case in some if case.configured.label == name] for name in ("faulty", "backwards", "none")]
    everywhere = [each for each in CHECKS if each.name != "own-number-is-a-budget"]
    scorers, selectors = ([each for each in everywhere if shape in each.shapes] for shape in ("scorer", "selector"))
    assert made == [scorers, [each for each in scorers if not each.ignores_schedule], selectors]
