"""Data in: files, folders and hub ids become labelled examples in three disjoint splits, then token batches.

Knows nothing of models.
"""
