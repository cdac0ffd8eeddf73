"""What several methods gather from the calibration set: gate gradients, and the inputs of the output projections.

Functions of a view; nothing here ranks heads.
"""
