"""Modules that read their number of query heads from the configuration that all layers share (Phi-3)."""

from __future__ import annotations

from typing import Any

from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class OwnConfig(Mechanism):
    """Gives the module a configuration with its own number of heads."""

    def applies(self, site: Site) -> bool:
        return site.layout.reads_config

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
        module.config = SiteConfig(module.config, len(kept))


class SiteConfig:
    """A model's configuration with one layer's own number of heads; everything else is read from the shared one."""

    def __init__(self, shared: Any, num_attention_heads: int) -> None:
        self.shared: Any = shared.shared if isinstance(shared, SiteConfig) else shared
        self.num_attention_heads = num_attention_heads

    def __getattr__(self, name: str) -> Any:
        if name == "shared" or name.startswith("__"):  # copy and pickle ask for these before there is a state
            raise AttributeError(name)
        return getattr(self.shared, name)
