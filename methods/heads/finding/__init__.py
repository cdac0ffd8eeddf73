"""Finding the heads and feed-forward layers of a transformers model by its structure.

A model comes in; a map of its heads goes out, or a refusal if it could not be pruned exactly. Changes no model.
"""
