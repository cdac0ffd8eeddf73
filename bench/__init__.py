"""Compare methods for pruning attention heads: plan cells, run them, keep their records, draw the leaderboard."""

__version__ = "0.1.0"
