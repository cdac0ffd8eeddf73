"""Gating and observing heads and neurons while a model runs.

Context managers with hooks that change no parameter and are gone on exit. Know nothing of what is done with the values.
"""
