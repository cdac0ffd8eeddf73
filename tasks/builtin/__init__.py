"""Built-in data, generated from fixed seeds or taken from installed packages, and the small models to train on it.

Works offline.
"""
