"""What attention modules have besides projections that depends on their heads, one file for each.

Takes modules and positions of heads; knows no models, sites or layouts.
"""
