"""Attention heads of transformers models: find, gate, observe, remove, count, save and load them.

Models come in; head maps, gated or smaller models and observations go out. Knows no method that scores heads.
"""

from methods.heads.finding.head_map import HeadMap
from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.mlps import Mlp, find_mlps
from methods.heads.finding.site import Site
from methods.heads.finding.units import Unit
from methods.heads.incremental import restarting
from methods.heads.surgery.count import count_megabytes, count_parameters
from methods.heads.surgery.head_counts import kept_heads, unpruned_heads
from methods.heads.surgery.neurons import remove_neurons
from methods.heads.surgery.remove import remove_heads
from methods.heads.surgery.save import load_pruned, save_pruned
from methods.heads.watching.gate import gated
from methods.heads.watching.gate_neurons import gated_neurons
from methods.heads.watching.observe import observed

__all__ = [
    "HeadMap",
    "Mlp",
    "Site",
    "Unit",
    "UnsupportedArchitecture",
    "count_megabytes",
    "count_parameters",
    "find_mlps",
    "gated",
    "gated_neurons",
    "kept_heads",
    "load_pruned",
    "observed",
    "remove_heads",
    "remove_neurons",
    "restarting",
    "save_pruned",
    "unpruned_heads",
]
