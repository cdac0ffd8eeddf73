"""Run the cells of a suite: which are left to do, in which order, in which processes, with progress and time left.

A suite and options come in; record files go out. Knows nothing of how a cell is measured.
"""
