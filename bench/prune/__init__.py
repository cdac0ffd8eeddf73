"""One model made smaller for use: choose, remove, check, evaluate, and save a checkpoint with its card."""
