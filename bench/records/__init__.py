"""Records of finished and failed cells: their schema, the store that reads and writes them, and where they come from.

A record goes in under its cell's name and comes out validated. Nothing here imports another part of the project, so
reading results needs neither torch nor a model.
"""
