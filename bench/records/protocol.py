"""What runs and readers of records share: the protocol number, and how a share becomes a number of units."""

PROTOCOL = 3  # increased when results from before and after a change must not be compared


def count_at(share: float, units: int) -> int:
    """The number of units nearest to ``share`` of ``units``; halves are rounded up."""
    return int(share * units + 0.5)
