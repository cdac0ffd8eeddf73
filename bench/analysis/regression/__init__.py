"""Regressions: a run judged by a baseline. Two folders of records come in, one verdict per method goes out."""
