"""How many processor cores there are for this process."""

from __future__ import annotations


def cores() -> int:
    """Cores that this process may use; no more than its container may keep busy."""
    from joblib import cpu_count  # takes a moment to import

    return cpu_count()
