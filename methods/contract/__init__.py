"""The contract between methods and whatever runs them.

In: registered functions, a model, calibration batches. Out: which units and neurons are kept at each budget.
Nothing here knows a particular method, a task or a record.
"""
