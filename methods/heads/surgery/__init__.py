"""Removing heads and neurons for good: smaller models, their size, and saving and loading them.

A model and a mask come in; a model with fewer parameters goes out. Knows nothing of how the mask was chosen.
"""
