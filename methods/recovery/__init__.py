"""Recovery without training: new output weights for the heads that are left, from calibration texts alone.

In: what a method keeps, and the calibration set. Out: the same choice with recovered weights. Nothing here ranks heads.
"""
