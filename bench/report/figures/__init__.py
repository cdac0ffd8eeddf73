"""Records and statistics in, pictures out: ``gallery`` and ``head_gallery`` list them, the other modules draw them with
matplotlib.

Knows nothing of pages.
"""
