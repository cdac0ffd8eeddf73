"""Methods that decide which attention heads a model can do without: one file a method.

A new method is a new file in this folder (or a third-party module named by a ``headbench.methods`` entry point)
that decorates one function with :func:`scorer`, :func:`selector` or :func:`joint`.
"""

from methods.contract.options import AtLeast, AtMost, OptionError
from methods.contract.registry import METHODS, Method, Trained, joint, scorer, selector
from methods.contract.schedule import Importance
from methods.contract.view import Training, View

__all__ = [
    "METHODS",
    "AtLeast",
    "AtMost",
    "Importance",
    "Method",
    "OptionError",
    "Trained",
    "Training",
    "View",
    "joint",
    "scorer",
    "selector",
]
