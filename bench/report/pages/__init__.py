"""Records and statistics in, pages out: each module collects what one template of ``templates`` shows.

Knows nothing of how pictures are drawn or numbers are computed.
"""
