"""Statistics: arrays in, frozen results out; the same input and random state give the same numbers.

A sample is a seed (or a document or a task, if a name says so), never a level: qualities at several levels are of one
model, and are summarised, by area or at a level chosen beforehand, before any test.
"""
