"""Records on disk: the store that reads and writes them, an index of many, and runs packed into one file or merged.

Knows the schema of a record, and nothing of what the fields mean.
"""
