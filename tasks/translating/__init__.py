"""Translation: from pairs of texts to batches and losses, from models to texts, from texts to BLEU and chrF.

Knows nothing of where pairs come from, nor of how models are trained.
"""
