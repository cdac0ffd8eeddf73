"""One cell: let the method choose, evaluate and check the smaller models, time them, and account for the cost.

A cell comes in; its record and arrays go out. Knows tasks and methods; not where records are stored, nor other cells.
"""
