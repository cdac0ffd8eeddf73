"""Recover what a choice keeps: the whole model with new output weights, to be gated or made smaller as before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.calibration.contexts import each_context
from methods.calibration.padding import real_tokens
from methods.calibration.single_texts import single_texts
from methods.contract.choice import Choice
from methods.contract.view import Batch, View
from methods.heads.surgery.shrink import working_copy
from methods.recovery.least_squares import Moments, best_of, damped_heads, scaled_heads, whole_projections
from methods.recovery.projection import Projection
from methods.recovery.tokens import texts_of, walk

How = Literal["bias", "scale", "scale-damped", "lstsq"]
HELD_OUT = 4  # one text in so many


@dataclass(frozen=True)
class Recovered:
    """A choice with recovered weights.

    recovered: number of attention modules with new ones. unchanged: number of those for which new ones were sought and
    which keep the old ones: none were better on texts held out, a factor was too large, or the guard refused them all.
    Modules in which there is nothing to seek count as neither: those without a head, by ``scale`` and ``scale-damped``,
    and by ``lstsq`` where the output projection has no bias.
    """

    choice: Choice
    recovered: int
    unchanged: int


@torch.no_grad()
def recover(view: View, choice: Choice, how: How, *, guarded: bool = True) -> Recovered:
    """The same units of a copy of the model whose output projections make up for what was removed.

    choice: what is kept of a whole model; its neurons, if any, stay removed as they are. The copy is whole and shares
    all weights that do not change.

    how: ``bias`` adds to each bias what the removed heads give on average in the unpruned model (An et al. 2024, FLAP):
        b += sum over removed channels j of mean(x_j) W_j. One forward pass.
    ``scale`` multiplies each kept head by one number (Kwon et al. 2022), ``lstsq`` replaces the weights of the kept
        heads and the bias, if there is one, both by ridge least squares with a pull towards the old weights, one
        attention module after the other from the bottom. They read the pruned model's own inputs, those below already
        recovered; they are to give the unpruned model's attention output plus the block's input, less the input of the
        pruned block. In models that are no plain stack of blocks, or do not add the two, they are to give the attention
        output alone. A quarter of the texts is held out: the pull is the one with the least error on those, and where
        the old weights have less they stay. If ``guarded``, they all stay unless on those the model's logits come
        nearer to the unpruned model's. At least four texts are needed to change anything.
    ``scale-damped`` finds the numbers of ``scale`` as the code of Kwon et al. does: from all texts, with a constant
        damping (``damped_heads``), in all attention modules but the first. Where a number leaves [-10, 10], that module
        and all above keep their weights. Nothing is held out, and there is no guard. (That code fits them to a model
        that is itself pruned, to the square root of the share kept; here it is the unpruned one.)

    Layers below the lowest removed head are left as they are. Of a layer without any head, ``bias`` and ``lstsq`` set
    the bias. Where the output projection has none (Llama), ``lstsq`` fits weights alone, and leaves a layer without any
    head as it is, so that a checkpoint can hold the result; ``bias`` adds one even so. Tied layers get one
    solution for all their calls, at inputs that the old weights give. Query heads of one group have each their own
    number. Sums and solutions are in float64, rounded to the model's dtype.

    Source: An et al., "Fluctuation-based Adaptive Structured Pruning", arXiv 2312.11983; Kwon et al., "A Fast
    Post-Training Pruning Framework for Transformers", arXiv 2204.09656. Their code tunes neurons too, which here stay
    as they are.

    Raises FloatingPointError where activations are not finite, ValueError if a batch does not say what is padding.
    """
    model = working_copy(choice.model)
    if how == "bias":
        found = _biases(view, choice)
    else:
        found = _damped(view, choice) if how == "scale-damped" else _least_squares(view, choice, how, guarded)
    for index, new in found.items():
        if new is not None:
            site = choice.heads.sites[index]
            kept = choice.heads.kept(choice.mask)[site.name]
            new.write(model.get_submodule(site.output), site.columns(kept))
    recovered = sum(new is not None for new in found.values())
    return Recovered(replace(choice, model=model), recovered, len(found) - recovered)


def _biases(view: View, choice: Choice) -> dict[int, Projection | None]:
    """The old weights of the kept heads with the new bias, by site that lost a head."""
    heads, kept = choice.heads, choice.heads.kept(choice.mask)
    sums: dict[int, Tensor] = {}
    counts = [0] * len(heads.sites)

    def take(site: int, tokens: Tensor, texts: Tensor) -> None:
        total = tokens.double().sum(0)  # (H, d_h)
        sums[site] = sums[site] + total if site in sums else total
        counts[site] += len(tokens)

    each_context(replace(view, model=choice.model, heads=heads), take)
    found: dict[int, Projection | None] = {}
    for index, site in enumerate(heads.sites):
        gone = [head for head in range(site.num_heads) if head not in kept[site.name]]
        if gone:
            old = Projection.of(choice.model.get_submodule(site.output))
            mean = (sums[index] / counts[index]).flatten()
            lost, left = (site.columns(which).to(mean.device) for which in (gone, kept[site.name]))
            found[index] = Projection(old.weight[left], old.offset + mean[lost] @ old.weight[lost])
    return found


def _least_squares(view: View, choice: Choice, how: How, guarded: bool) -> dict[int, Projection | None]:
    """New weights of the kept heads by site that was considered; None where the old ones stay."""
    held_out = held_out_texts(view)
    smaller = choice.smaller()
    found: dict[int, Projection | None] = {}
    for due in _from_the_bottom(view, choice, smaller, held_out):
        old, heads = due.old, due.heads
        if not heads and (how == "scale" or old.bias is None):
            continue
        candidates = whole_projections(due.fit, old) if how == "lstsq" else scaled_heads(due.fit, old, heads)
        found[due.index] = new = best_of(candidates, due.test, old, next(due.output.parameters()).dtype)
        if new is not None:
            new.write(due.output)
    if guarded and any(found.values()):
        after, before = divergences(view, (smaller, choice.smaller()), held_out)
        if not after < before:  # each layer gives more of what it gave, and yet the model is farther off
            return dict.fromkeys(found)
    return found


def _damped(view: View, choice: Choice) -> dict[int, Projection | None]:
    """New weights of the kept heads by site that was considered; None where the old ones stay."""
    none_held_out = torch.zeros_like(held_out_texts(view))
    found: dict[int, Projection | None] = {}
    for due in _from_the_bottom(view, choice, choice.smaller(), none_held_out):
        if due.index and due.heads:
            found[due.index] = new = damped_heads(due.fit, due.old, due.heads)
            if new is None:
                break
            new.write(due.output)
    return found


@dataclass(frozen=True)
class _Due:
    """An attention module of the smaller model whose new weights are due.

    index: of its site. heads: how many it keeps. output: its output projection, with the weights ``old``. fit, test:
    sums over the texts that weights are fitted to, and over those held out.
    """

    index: int
    heads: int
    output: nn.Module
    old: Projection
    fit: Moments
    test: Moments


def _from_the_bottom(view: View, choice: Choice, smaller: nn.Module, held_out: Tensor) -> Iterator[_Due]:
    """The modules one by one, each of which is to have its new weights when the next is asked for.

    held_out: (texts,) bool. Raises as ``recover`` does.
    """
    steps = walk(view, choice, smaller)
    for index in steps.sites():
        site = choice.heads.sites[index]
        output = smaller.get_submodule(site.output)
        old = Projection.of(output)
        inputs, outputs = old.weight.shape
        fit, test = (Moments.zero(inputs, outputs, old.weight.device) for _ in range(2))
        for tokens in steps.tokens(index):
            out = held_out[tokens.texts].to(tokens.read.device)
            fit.add(tokens.read[~out], tokens.wanted[~out])
            test.add(tokens.read[out], tokens.wanted[out])
        if not (fit.tt + test.tt + fit.xx.sum() + test.xx.sum()).isfinite():
            raise FloatingPointError(f"activations of {site.name} on the calibration set are not finite")
        yield _Due(index, len(old.weight) // site.head_dim, output, old, fit, test)


@torch.no_grad()
def divergences(view: View, models: Sequence[nn.Module], texts: Tensor) -> list[float]:
    """Mean over some of the calibration texts of KL(unpruned model || model) for each of ``models``.

    texts: (texts,) bool. Of a language model, or one that translates, a text counts with the mean over its tokens that
    are not padding, in translation those of the target. One text at a time, as logits of a whole batch over a
    vocabulary may be large. A loss would count what the unpruned model gets wrong: a less certain model has less of it.
    """
    totals = [0.0] * len(models)
    for text in compress(single_texts(view.batches), texts.tolist()):
        wanted = _log_probabilities(view, view.model, text)
        for place, model in enumerate(models):
            given = _log_probabilities(view, model, text)
            divergence = F.kl_div(given, wanted, reduction="none", log_target=True).sum(-1)
            totals[place] += float(divergence.mean()) / int(texts.sum())
    return totals


def _log_probabilities(view: View, model: nn.Module, text: Batch) -> Tensor:
    """What ``model`` gives for one text, in float64: (1, classes), or (T, vocabulary) of its tokens without padding."""
    logits = view.forward(model, text)
    if logits.dim() == 3:
        logits = logits[real_tokens(text, "decoder", logits.shape[1]).to(logits.device)]
    return logits.double().log_softmax(-1)


def held_out_texts(view: View) -> Tensor:
    """Which calibration texts are held out: (texts,) bool, a quarter of them, the same for all methods."""
    number = sum(map(len, texts_of(view.batches)))
    mask = torch.zeros(number, dtype=torch.bool)
    mask[torch.randperm(number, generator=view.generator_for("recovery"))[: number // HELD_OUT]] = True
    return mask
