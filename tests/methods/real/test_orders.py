"""On a real encoder and a real language model, scores and orders are those of the slow oracles, a text at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from methods import METHODS
from methods.cahp import complementary, plane_distances, separability
from methods.contract.choosing import select
from methods.path import path
from tests.methods.activations import contexts_of, weights_of
from tests.methods.contract.test_greedy import slow_greedy
from tests.methods.slopes import slopes
from tests.methods.test_cahp import slow_features
from tests.methods.test_entropy import slow_entropy as slow_attention_entropy
from tests.methods.test_fisher_rearranged import slow_swaps
from tests.methods.test_forward_scores import slow_flap, slow_minitron, slow_wanda_sp
from tests.methods.test_gnorm import slow_gnorm
from tests.methods.test_hies import scaled, slow_entropy
from tests.methods.test_llm_pruner import VARIANTS, gradients_of
from tests.methods.test_llm_pruner import slow as slow_llm_pruner
from tests.methods.test_obs import slow_removal
from tests.methods.test_tis import slow_tis

pytestmark = [pytest.mark.data, pytest.mark.slow]


def check(view, name, expected, rtol=1e-5, sites=None, **options):
    """Importances are as ``expected``, (units,), and the units go in that order, ties in any.

    sites: those whose units are looked at; None for all.
    """
    chosen = units_of(view, range(len(view.heads.sites)) if sites is None else sites)
    found = METHODS[name].function(view, **options)
    expected = expected.to(found.dtype)
    torch.testing.assert_close(found[chosen], expected[chosen], rtol=rtol, atol=rtol / 100)
    method = METHODS[name]
    (order,) = select(method, method.configure({**options, "allocation": "global"}), view, [0]).orders
    order = [unit for unit in order if unit in chosen]
    torch.testing.assert_close(expected[order], expected[chosen].sort().values, rtol=1e-6, atol=1e-12)


def ends(view):
    """The first and the last layer, where looking at all would take long."""
    return 0, len(view.heads.sites) - 1


def units_of(view, sites):
    return [number for number, unit in enumerate(view.heads.units) if unit.site in sites]


KNOWN: dict[tuple[str, int], torch.Tensor] = {}


def slopes_of(view, texts):
    """In gates of 1, of each text: (texts, units). Looked for once for each model and kind of unit."""
    key = type(view.model).__name__, len(view.heads)
    if key not in KNOWN:
        KNOWN[key] = torch.stack([slopes(view, text) for text in texts])
    return KNOWN[key]


def budgets(view):
    return [round(share * len(view.heads)) for share in (0.25, 0.5, 0.75, 0.875)]


def masks(view, name):
    method = METHODS[name]
    return select(method, method.configure({}), view, budgets(view)).masks[0]


def test_fisher_and_its_rearrangement(scene):
    view, texts = scene
    of_texts = slopes_of(view, texts)
    expected = of_texts.square().mean(0)
    check(view, "fisher", expected.sqrt(), rtol=1e-4)
    matrix = of_texts.T @ of_texts / len(texts)
    for removed, mask in zip(budgets(view), masks(view, "fisher-rearranged"), strict=True):
        first = torch.zeros(len(view.heads), dtype=torch.bool)
        first[expected.argsort(stable=True)[:removed]] = True
        for site in range(len(view.heads.sites)):
            mine = (view.heads.site_of_unit == site).nonzero().flatten()
            gone = slow_swaps(matrix[mine][:, mine], set(first[mine].nonzero().flatten().tolist()))
            assert (~mask[mine]).nonzero().flatten().tolist() == sorted(gone)


def test_attention_entropy(scene):
    """Eager attention of Llama takes its softmax in float32."""
    view, texts = scene
    check(view, "ae", slow_attention_entropy(view, texts, "C", 1e-7), rtol=1e-4)


def test_gradient_norms_and_their_greedy_order(scene):
    """Gradients of whole weights, of one text after another; then of a model that lost the heads before."""
    view, texts = scene
    check(view, "gnorm", slow_gnorm(view, texts, "logits", "product"))
    method = METHODS["greedy-gnorm"]
    (order,) = select(method, method.configure({}), view, [0]).orders
    assert list(order) == slow_greedy(view, lambda smaller: slow_gnorm(smaller, texts, "logits", "product"), 1, False)


def test_path(scene):
    view, texts = scene
    expected = torch.zeros(len(view.heads), dtype=torch.float64)
    for text in texts:
        integral = torch.zeros_like(expected)
        for site in ends(view):
            mine = view.heads.site_of_unit == site
            for value in (0.25, 0.75):
                integral += mine * slopes(view, text, torch.where(mine, value, 1.0).double(), mine) / 2
        expected += integral.abs() / len(texts)
    options = {"along": "layer", "points": 2, "rounds": 1, "signed": False}
    check(view, "path", expected, rtol=1e-4, sites=ends(view), **options)


def test_path_in_the_order_of_its_default(scene, monkeypatch):
    """Gradients at gates that are partly closed, by differences, of one text after another without padding."""
    view, texts = scene
    options = {"points": 3, "rounds": 2}
    found = path(replace(view, generator=torch.Generator().manual_seed(1)), **options)

    def by_differences(view, text, gates):
        return slopes(view, text, gates[:, 0].double())[:, None]

    monkeypatch.setattr("methods.path.gradients_at", by_differences)
    alone = replace(view, batches=texts, generator=torch.Generator().manual_seed(1))
    assert found.tolist() == path(alone, **options).tolist()


def test_flap(scene):
    view, texts = scene
    plain, standardised = slow_flap(view, texts)
    check(view, "flap", plain, standardise=False)
    check(view, "flap", standardised)


@pytest.mark.parametrize(("name", "slow"), [("minitron", slow_minitron), ("wanda-sp", slow_wanda_sp)])
def test_scores_of_activations(scene, name, slow):
    check(scene[0], name, slow(*scene))


def test_llm_pruner(scene):
    view, texts = scene
    gradients = gradients_of(view, texts)
    for order, combine in VARIANTS:
        expected = slow_llm_pruner(view, gradients, order, combine)
        check(view, "llm-pruner", expected, order=order, combine=combine)


def test_hies(scene):
    """Eager attention of Llama takes its softmax in float32."""
    view, texts = scene
    expected = (scaled(slow_tis(view, texts)) + 1 - scaled(slow_entropy(view, texts))) / 2
    check(view, "hies", expected, rtol=1e-4)


def test_cahp(scene):
    """Places in the plane are those of the fast features: t-SNE makes much of a difference in the last digits."""
    view, texts = scene
    importance = slopes_of(view, texts).abs().mean(0)
    features = list(separability(view))
    if len({int(text.labels) for text in texts}) > 1:
        slow = list(slow_features(view, texts))
        assert len(slow) == len(features)
        for found, expected in zip(features, slow, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    distances = plane_distances(sum(each @ each.T for each in features))
    for removed, mask in zip(budgets(view), masks(view, "cahp"), strict=True):
        kept = complementary(distances, importance, view.heads.site_of_unit, len(view.heads) - removed)
        assert mask.nonzero().flatten().tolist() == sorted(kept)


def test_obs(scene):
    view, texts = scene
    contexts, left = contexts_of(view, texts), []
    for index in ends(view):
        site = view.heads.sites[index]
        inputs = torch.cat([contexts[index, head] for head in range(site.num_heads)], 1)
        weight = torch.cat([weights_of(view, index, head) for head in range(site.num_heads)])
        mine = units_of(view, [index])
        blocks = [site.columns(view.heads.units[unit].heads).tolist() for unit in mine]
        ridge = 0.01 * inputs.square().sum().item() / inputs.shape[1]
        energy = ((inputs @ weight) ** 2).sum().item() / 2
        left.append([(cost / energy, mine[place]) for place, cost in slow_removal(inputs, weight, blocks, ridge)])
    expected = []
    while any(left):
        expected.append(min((each for each in left if each), key=lambda each: each[0]).pop(0)[1])
    method = METHODS["obs"]
    (order,) = select(method, method.configure({}), view, [0]).orders
    assert [unit for unit in order if unit in expected] == expected
