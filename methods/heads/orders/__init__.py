"""The orders of rows in projections that give the outputs of several roles and heads, one file for each.

Takes numbers of heads and widths; knows no models, sites or layouts.
"""
