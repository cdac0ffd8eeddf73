"""Zero-shot evaluation by lm-eval: a model and names of tasks come in, outcomes go out.

Imported late, because lm-eval is slow to import. Knows nothing of heads and methods.
"""
