"""What attention modules have besides projections that depends on their heads, one file for each.

Takes the description of a site, cuts its parameters and adjusts its module; which sites there are is known before.
"""
