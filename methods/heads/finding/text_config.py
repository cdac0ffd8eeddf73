"""The part of a model's configuration that is for texts."""

from __future__ import annotations

from typing import Any


def text_config(config: Any) -> Any:
    """The part of a configuration that is for texts, which may be all of it; None where there is none, or several."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):
        return None
