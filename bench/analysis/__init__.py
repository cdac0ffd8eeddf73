"""From records to quantities: curves, areas, costs, comparisons of methods and of runs.

Records come in; numbers and frozen results go out. Imports ``bench.records`` only: no method, no task, no page.
"""
