"""Records and statistics in, pictures out: ``gallery`` and ``heads.gallery`` list them, the other modules draw them
with matplotlib.

Knows nothing of pages.
"""
