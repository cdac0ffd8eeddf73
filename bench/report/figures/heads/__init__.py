"""Figures of single heads: which are kept, and what their scores and gates do. ``gallery`` lists them."""
