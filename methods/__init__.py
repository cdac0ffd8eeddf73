"""Methods that decide which attention heads a model can do without: one file a method.

A new method is a new file in this folder (or a third-party module named by a ``headbench.methods`` entry point)
that decorates one function with :func:`scorer` or :func:`selector`.
"""

from methods.options import AtLeast, OptionError
from methods.registry import METHODS, Method, scorer, selector
from methods.view import View

__all__ = ["METHODS", "AtLeast", "Method", "OptionError", "View", "scorer", "selector"]
