"""Records and statistics in, pictures out: ``gallery`` lists them, the other modules draw them with matplotlib.

Knows nothing of pages.
"""
