"""What a head is: find, gate, observe, remove, count, save and load the attention heads of a transformers model."""

from methods.heads.count import count_megabytes, count_parameters
from methods.heads.gate import gated
from methods.heads.head_map import HeadMap, Unit
from methods.heads.layouts import UnsupportedArchitecture
from methods.heads.neurons import Mlp, find_mlps, gated_neurons, remove_neurons
from methods.heads.observe import observed
from methods.heads.remove import remove_heads
from methods.heads.restart import restarting
from methods.heads.save import load_pruned, save_pruned
from methods.heads.sites import Site

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
    "load_pruned",
    "observed",
    "remove_heads",
    "remove_neurons",
    "restarting",
    "save_pruned",
]
