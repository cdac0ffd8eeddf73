"""Compare methods for pruning attention heads: plan cells, run them, keep their records, draw the leaderboard."""
