"""What methods that train share: the training loop, gates on heads, and their distributions.

In: a view with a training split. Out: a trained copy of its model. Nothing here knows a particular method or task.
"""
