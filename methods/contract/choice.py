"""What a method keeps at one level, as a gated and as a physically smaller model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from methods.contract.trace import Trace
from methods.heads import HeadMap, gated, gated_neurons, remove_neurons
from methods.heads.surgery.shrink import shrink, working_copy


@dataclass(frozen=True, eq=False)
class Choice:
    """What is kept of ``model``, which is whole: either the task's own, or one trained for this choice.

    mask: (units,) bool. neurons: (width,) bool by feed-forward layer, None where all stay. report, trace: numbers that
    a joint method reports of its training, and what that was like on the way.
    """

    model: nn.Module
    heads: HeadMap
    mask: Tensor
    neurons: Mapping[str, Tensor] | None = None
    report: Mapping[str, float] = field(default_factory=dict)
    trace: Trace | None = None

    @property
    def removed(self) -> int:
        """Number of units removed."""
        return int((~self.mask).sum())

    def smaller(self) -> nn.Module:
        """The physically smaller model. It shares with ``model`` all weights of which nothing goes."""
        smaller = working_copy(self.model)
        shrink(smaller, self.mask, self.heads)
        return smaller if self.neurons is None else remove_neurons(smaller, self.neurons, in_place=True)

    @contextmanager
    def gated(self) -> Iterator[nn.Module]:
        """Inside, the whole model with gates of zero on what is not kept."""
        with ExitStack() as stack:
            stack.enter_context(gated(self.model, self.mask, self.heads))
            if self.neurons is not None:
                stack.enter_context(gated_neurons(self.model, self.neurons))
            yield self.model
