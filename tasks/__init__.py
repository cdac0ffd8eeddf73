"""Tasks: one file per adapter. Data and a model for each seed come in; a loss and per-example outcomes go out.

Knows nothing of methods, heads or records. Imports nothing here, so that ``tasks.request`` loads without torch.
"""
