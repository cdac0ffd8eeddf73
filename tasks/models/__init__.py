"""Models in: checkpoints become models; models that are trained here are kept in a cache, one per seed.

Knows nothing of heads and methods.
"""
