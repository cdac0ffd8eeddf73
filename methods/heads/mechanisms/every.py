"""All mechanisms, and which of them a site has."""

from __future__ import annotations

from collections.abc import Iterable

from methods.heads.finding.site import Site
from methods.heads.mechanisms.arguments import Arguments
from methods.heads.mechanisms.block_bias import BlockBias
from methods.heads.mechanisms.input_width import InputWidth
from methods.heads.mechanisms.mechanism import Mechanism
from methods.heads.mechanisms.own_config import OwnConfig
from methods.heads.mechanisms.parameters import Parameters
from methods.heads.mechanisms.position_bias import PositionBias
from methods.heads.mechanisms.quarters import Quarters
from methods.heads.mechanisms.shared_keys import SharedKeys
from methods.heads.mechanisms.wide_norms import WideNorms
from methods.heads.orders.every import ORDERS

MECHANISMS: tuple[Mechanism, ...] = (
    Parameters(),
    OwnConfig(),
    Quarters(),
    InputWidth(),
    Arguments(),
    PositionBias(),
    BlockBias(),
    SharedKeys(),
    WideNorms(),
)


def mechanisms_of(site: Site) -> list[Mechanism]:
    """The mechanisms that the site has, in the order in which they are adjusted."""
    return [mechanism for mechanism in MECHANISMS if mechanism.applies(site)]


def modules_used(sites: Iterable[Site]) -> set[str]:
    """Names of the modules whose code removes heads from these sites and not from every other."""
    used = {type(mechanism).__module__ for site in sites for mechanism in mechanisms_of(site)}
    return used | {ORDERS[site.layout.order].__module__ for site in sites}
