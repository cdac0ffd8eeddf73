"""Methods that score or choose the attention heads to prune, one file per method, and the contract they are written to.

A new method is one file in this folder, or a module of another package that an entry point in the group
``headbench.methods`` names. It decorates one function with :func:`scorer`, :func:`selector` or :func:`joint`.
Methods know the model, calibration batches and a loss (:class:`View`); they know no task and no record.
"""

from methods.contract.method import Method
from methods.contract.options import AtLeast, AtMost, OptionError
from methods.contract.registry import METHODS, Kept, Trained, joint, scorer, selector
from methods.contract.schedule import Importance
from methods.contract.view import Batch, Training, View

__all__ = [
    "METHODS",
    "AtLeast",
    "AtMost",
    "Batch",
    "Importance",
    "Kept",
    "Method",
    "OptionError",
    "Trained",
    "Training",
    "View",
    "joint",
    "scorer",
    "selector",
]
