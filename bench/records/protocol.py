"""What runs and readers of records agree on: the protocol's number, and how a share becomes a number of units."""

PROTOCOL = 3  # raised when results from before and after a change must not be compared


def count_at(share: float, units: int) -> int:
    """Number of units that is nearest to ``share`` of ``units``; halves are rounded up."""
    return int(share * units + 0.5)
