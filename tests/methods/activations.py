"""Slow looks at what the output projections of a model read, text by text, for oracles."""

from __future__ import annotations

import torch


def contexts_of(view, texts):
    """By site and head: the head's contexts of all tokens of all texts, (tokens, d_h) in float64."""
    found = {}
    for text in texts:
        for index, site in enumerate(view.heads.sites):
            seen = []
            output = view.model.get_submodule(site.output)
            hook = output.register_forward_pre_hook(lambda module, args, seen=seen: seen.append(args[0].double()))
            with torch.no_grad():
                view.logits(text)
            hook.remove()
            for context in seen:  # (1, T, H * d_h), once for each call of a tied layer
                for head in range(site.num_heads):
                    block = slice(head * site.head_dim, (head + 1) * site.head_dim)
                    found.setdefault((index, head), []).append(context[0, :, block])
    return {place: torch.cat(parts) for place, parts in found.items()}


def weights_of(view, site, head):
    """What reads a head: (d_h, d) in float64."""
    layer = view.heads.sites[site]
    block = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
    return view.model.get_submodule(layer.output).weight.detach().double()[:, block].T


def of_units(view, of_heads):
    """Mean over the heads of each unit of {(site, head): number}: (units,)."""
    means = [sum(of_heads[unit.site, head] for head in unit.heads) / len(unit.heads) for unit in view.heads.units]
    return torch.tensor(means, dtype=torch.float64)
