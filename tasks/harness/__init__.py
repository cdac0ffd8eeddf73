"""Zero-shot evaluation by lm-eval: its tasks, metrics and models. A folder of its own, as lm-eval is slow to import."""
