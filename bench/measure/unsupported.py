"""Methods that cannot be used on a model, told before they fail in the middle of a computation."""

from __future__ import annotations

from methods import Method, OptionError
from methods.heads import HeadMap

# Modules of methods that take an attention map to have a row and a column for each token of one text.
OF_SQUARE_MAPS = ("methods.attr", "methods.cahp", "methods.entropy", "methods.hies")


def check_method(method: Method, heads: HeadMap) -> None:
    """Raise OptionError where ``method`` cannot be used on a model with ``heads``."""
    if method.function.__module__ in OF_SQUARE_MAPS and any(site.kind == "cross" for site in heads.sites):
        raise OptionError(
            "takes attention maps to be squares, which those of cross attention are not: leave it out for an encoder "
            "with a decoder"
        )
