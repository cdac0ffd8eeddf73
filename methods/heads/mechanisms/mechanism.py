"""What all mechanisms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import nn

from methods.heads.finding.site import Site


class Mechanism(ABC):
    """Something that an attention module has besides its projections and that depends on its heads."""

    # Whether a site that loses no head must be adjusted, too, once another one lost some.
    at_every_site: ClassVar[bool] = False

    @abstractmethod
    def applies(self, site: Site) -> bool:
        """Whether the site has it."""

    def cut(self, model: nn.Module, site: Site, kept: list[int]) -> dict[int, nn.Parameter]:
        """The site's further parameters for the query heads ``kept``, by the id of the parameter that each replaces."""
        return {}

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        """Let the site, whose parameters and attributes are cut already, run with the query heads ``kept``.

        site: as it was before. May be called again, at a later removal.
        """
        return
