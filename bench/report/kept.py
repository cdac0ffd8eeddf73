"""Which heads each method keeps on a task, at every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.kept import by_layer, counts_heads, kept_shares
from bench.analysis.kinds import KINDS, kind
from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all, removes_heads


@dataclass(frozen=True)
class Kept:
    """Heads kept on a task.

    removed: heads removed at each level but 0. shape: heads of each attention module. parts: by kind of attention its
        modules, which stand together; all under an empty name where there is one kind.
    shares: by label and number removed the share of seeds and draws that keep each head, for each module (heads,); a
        level is missing where a method was not measured at it.
    kinds: labels by kind of method, controls last.
    averaged: labels of methods that remove heads alone, but for controls. counted: of those whose levels are numbers of
        heads; others remove neurons, and may keep more heads or fewer.
    """

    units: int
    removed: tuple[int, ...]
    shape: tuple[int, ...]
    parts: Mapping[str, slice]
    shares: Mapping[str, Mapping[int, Sequence[np.ndarray]]]
    kinds: Mapping[str, Sequence[str]]
    controls: frozenset[str]
    averaged: frozenset[str]
    counted: frozenset[str]

    @property
    def modules(self) -> list[tuple[str, int]]:
        """Kind of attention and number of each module; the numbers of each kind begin at 0."""
        return [(part, number) for part, own in self.parts.items() for number in range(len(self.shape[own]))]

    def in_all(self, label: str, removed: int) -> float:
        """Mean number of heads that a method keeps in all modules together."""
        return float(heads_kept(self.shares[label][removed]).sum())

    def by_kind(self, removed: int) -> dict[str, np.ndarray]:
        """Mean number of heads kept in each module, (modules,), over those of a kind in ``averaged``."""
        found = {}
        for own, labels in self.kinds.items():
            counted = [
                heads_kept(self.shares[label][removed])
                for label in labels
                if label in self.averaged and removed in self.shares[label]
            ]
            if counted:
                found[own] = np.mean(counted, axis=0)
        return found


def heads_kept(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Mean number of heads kept in each module, (modules,)."""
    return np.array([shares.sum() for shares in layers])


def kept(board: Board, task: TaskKey) -> Kept | None:
    """The heads that are kept; None where no record says which unit is in which module.

    Methods that remove nothing are left out.
    """
    cells = {label: own for label in board.labels if (own := board.of(task, label)) and not keeps_all(own[0])}
    shapes = [tuple(own[0].result.shape) for own in cells.values() if own[0].result.shape]
    if not shapes:
        return None
    shape = max(shapes, key=shapes.count)
    units = sum(shape)
    cells = {label: own for label, own in cells.items() if all(tuple(r.result.shape) == shape for r in own)}
    attention = next((own[0].result.attention for own in cells.values() if own[0].result.attention), [])
    order_of_modules, parts = _by_attention(attention, len(shape))
    removed = sorted({count for own in cells.values() for record in own for count in record.result.removed if count})
    some = {label: own[0].cell for label, own in cells.items()}
    order = sorted(some, key=lambda label: (some[label].control, label))
    kinds = {own: [label for label in order if kind(some[label]) == own] for own in KINDS}
    return Kept(
        units=units,
        removed=tuple(removed),
        shape=tuple(shape[module] for module in order_of_modules),
        parts=parts,
        shares={
            label: {
                count: [by_layer(shares, shape)[module] for module in order_of_modules]
                for count in removed
                if (shares := kept_shares(own, count)) is not None
            }
            for label, own in cells.items()
        },
        kinds={own: labels for own, labels in kinds.items() if labels},
        controls=frozenset(label for label, cell in some.items() if cell.control),
        averaged=frozenset(label for label, own in cells.items() if removes_heads(own[0]) and not some[label].control),
        counted=frozenset(label for label, own in cells.items() if all(map(counts_heads, own))),
    )


def _by_attention(attention: Sequence[str], modules: int) -> tuple[list[int], dict[str, slice]]:
    """The modules in an order in which each kind of ``attention`` stands together, and the places of each kind."""
    kinds = list(dict.fromkeys(attention))
    if len(kinds) < 2:
        return list(range(modules)), {"": slice(0, modules)}
    order = sorted(range(modules), key=lambda module: kinds.index(attention[module]))
    ends = np.cumsum([0, *(attention.count(own) for own in kinds)]).tolist()
    return order, {own: slice(start, end) for own, start, end in zip(kinds, ends, ends[1:], strict=False)}
