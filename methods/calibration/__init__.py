"""What several methods gather from the calibration set: gate gradients, attention maps, inputs of output projections.

Functions of a view, and clusters of what they give; nothing here ranks heads.
"""
