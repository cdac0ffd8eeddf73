"""What a head is: find, gate, observe, remove and count the attention heads of a transformers model."""

from methods.heads.count import count_megabytes, count_parameters
from methods.heads.gate import gated
from methods.heads.head_map import HeadMap, Unit
from methods.heads.layouts import UnsupportedArchitecture
from methods.heads.observe import observed
from methods.heads.remove import remove_heads
from methods.heads.sites import Site

__all__ = [
    "HeadMap",
    "Site",
    "Unit",
    "UnsupportedArchitecture",
    "count_megabytes",
    "count_parameters",
    "gated",
    "observed",
    "remove_heads",
]
