"""Recovery written out: whole forward passes for each site, all its tokens in one matrix, least squares by SVD."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import torch

from methods.recovery.least_squares import STRENGTHS


def block_path(site):
    """The first numbered module on the way to an attention module."""
    names = site.name.split(".")
    return ".".join(names[: next(i for i, name in enumerate(names) if name.isdecimal()) + 1])


def watch(model, view, batch, site, block):
    """Per call of the site: what its output projection reads and gives, and the input of its block if there is one.

    GPT-2's cannot run on nothing: then the attention module gives what the projection would.
    """
    reads, gives, inputs, instead = [], [], [], []

    def note(module, args, output):
        reads.append(args[0].double())
        gives.append(output.double())

    def note_attention(module, args, output):
        instead.append((output[0] if isinstance(output, tuple) else output).double())

    hooks = [model.get_submodule(site.output).register_forward_hook(note)]
    hooks.append(model.get_submodule(site.name).register_forward_hook(note_attention))
    if block:

        def enter(module, args, kwargs):
            inputs.append((args[0] if args else kwargs["hidden_states"]).double())

        hooks.append(model.get_submodule(block).register_forward_pre_hook(enter, with_kwargs=True))
    with torch.no_grad():
        view.forward(model, batch)
    for hook in hooks:
        hook.remove()
    if not reads:
        reads, gives = [each[..., :0] for each in instead], instead
    return reads, gives, inputs


def real(batch, site, shape):
    """Which tokens count: (B, T) bool."""
    of_decoder = "decoder" in site.name.split(".") and "decoder_input_ids" in batch.inputs
    mask = batch.inputs.get("decoder_attention_mask" if of_decoder else "attention_mask")
    return torch.ones(shape, dtype=torch.bool) if mask is None else mask.bool()


def matrices(view, model, choice, site, columns, adds):
    """Everything read by the kept heads, (N, k), wanted of them, (N, d), and the text of each token, (N,)."""
    xs, ts, owners, first = [], [], [], 0
    for batch in view.batches:
        block = block_path(site) if adds else ""
        _, wanted, before = watch(view.model, view, batch, site, block)
        with replace(choice, model=model).gated():
            read, _, after = watch(model, view, batch, site, block)
        for call, x in enumerate(read):
            mask = real(batch, site, x.shape[:2])
            t = wanted[call] + (before[call] - after[call] if adds else 0)
            for row in range(len(x)):
                xs.append(x[row][mask[row]][:, columns])
                ts.append(t[row][mask[row]])
                owners.append(torch.full((int(mask[row].sum()),), first + row))
        first += len(batch.labels)
    return torch.cat(xs), torch.cat(ts), torch.cat(owners)


def weights(module, columns):
    """(k, d), and (d,) or None."""
    weight = module.weight if isinstance(module, torch.nn.Linear) else module.weight.T
    bias = None if module.bias is None else module.bias.detach().double()
    return weight.detach().double().T[columns], bias


def put(module, columns, weight, bias):
    with torch.no_grad():
        target = module.weight.T if isinstance(module, torch.nn.Linear) else module.weight
        target[columns] = weight.to(target)
        if module.bias is not None:
            module.bias.copy_(bias)


def whole(x, t, old, bias, strength):
    """The bias is free if there is one; if not, only inputs give anything."""
    mean_x, mean_t = (each.mean(0) * (bias is not None) for each in (x, t))
    centred, aims = x - mean_x, t - mean_t
    ridge = strength * centred.square().mean(0).mean() * len(x) if x.shape[1] else torch.tensor(1.0)
    rows = torch.cat([centred, ridge.sqrt() * torch.eye(x.shape[1], dtype=x.dtype)])
    weight = torch.linalg.lstsq(rows, torch.cat([aims, ridge.sqrt() * old]), driver="gelsd").solution
    return weight, None if bias is None else mean_t - mean_x @ weight


def given(x, weight, bias):
    return x @ weight + (0 if bias is None else bias)


def scaled(x, t, old, bias, strength, width):
    heads = x.shape[1] // width
    parts = [(x[:, width * h :][:, :width] @ old[width * h :][:width]).flatten() for h in range(heads)]
    features = torch.stack(parts, 1)  # (N * d, heads)
    ridge = strength * features.square().sum(0).mean()
    rows = torch.cat([features, ridge.sqrt() * torch.eye(heads, dtype=x.dtype)])
    aims = torch.cat([(t - (0 if bias is None else bias)).flatten(), ridge.sqrt() * torch.ones(heads, dtype=x.dtype)])
    numbers = torch.linalg.lstsq(rows, aims[:, None], driver="gelsd").solution[:, 0]
    return old * numbers.repeat_interleave(width)[:, None], bias


def damped(x, t, old, bias, width):
    """One factor for each head, by damped least squares on the normal equations, with a column of ones."""
    heads = x.shape[1] // width
    parts = [(x[:, width * h :][:, :width] @ old[width * h :][:width]).flatten() for h in range(heads)]
    features = torch.stack([*parts, torch.ones_like(parts[0])], 1)
    aims = (t - (0 if bias is None else bias)).flatten()
    normal, gap = features.T @ features, features.T @ (aims - features.sum(1))
    rows = torch.cat([normal, torch.eye(heads + 1, dtype=x.dtype)])
    gap = torch.cat([gap, torch.zeros(heads + 1, dtype=x.dtype)])
    return 1 + torch.linalg.lstsq(rows, gap[:, None], driver="gelsd").solution[:heads, 0]


def slow_damped(view, choice, adds):
    """As ``slow``, with the factors of ``damped`` in all sites but the first, up to one where they are too large."""
    model = copy.deepcopy(view.model)
    kept = choice.heads.kept(choice.mask)
    counts, changed = [0, 0], False
    for index, site in enumerate(choice.heads.sites):
        changed = changed or len(kept[site.name]) < site.num_heads
        columns = site.columns(kept[site.name])
        if not index or not changed or not len(columns):
            continue
        module = model.get_submodule(site.output)
        x, t, _ = matrices(view, model, choice, site, columns, adds)
        old, bias = weights(module, columns)
        factors = damped(x, t, old, bias, site.head_dim)
        if factors.max() > 10 or factors.min() < -10:
            counts[1] += 1
            break
        counts[0] += 1
        put(module, columns, old * factors.repeat_interleave(site.head_dim)[:, None], bias)
    return model, counts


def slow(view, choice, how, held_out, adds):
    """A copy of the model with recovered weights, and how many sites got new ones and kept the old ones."""
    model = copy.deepcopy(view.model)
    kept = choice.heads.kept(choice.mask)
    counts, changed = [0, 0], choice.neurons is not None
    for site in choice.heads.sites:
        changed = changed or len(kept[site.name]) < site.num_heads
        if not changed:
            continue
        columns = site.columns(kept[site.name])
        module = model.get_submodule(site.output)
        old, bias = weights(module, columns)
        if not len(columns) and (how == "scale" or bias is None):
            continue
        x, t, owners = matrices(view, model, choice, site, columns, adds)
        out = held_out[owners]
        best, least = None, (given(x[out], old, bias) - t[out]).square().sum() - 1e-9 * t[out].square().sum()
        for strength in STRENGTHS:
            if how == "lstsq":
                found = whole(x[~out], t[~out], old, bias, strength)
            else:
                found = scaled(x[~out], t[~out], old, bias, strength, site.head_dim)
            error = (given(x[out], *found) - t[out]).square().sum()
            if error < least:
                best, least = found, error
        counts[best is None] += 1
        if best is not None:
            put(module, columns, *best)
    return model, counts


def divergence(view, choice, held_out):
    """Mean KL of the unpruned model's classes against those of a choice, over held-out texts one by one."""
    total, row = 0.0, 0
    for batch in view.batches:
        with torch.no_grad(), choice.gated() as model:
            given = view.forward(model, batch).double().softmax(-1)
        wanted = view.logits(batch).detach().double().softmax(-1)
        for p, q in zip(wanted.tolist(), given.tolist(), strict=True):
            if held_out[row]:
                total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / int(held_out.sum())
            row += 1
    return total
