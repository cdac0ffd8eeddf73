"""The engine for a cluster, by Ray: places cells on its nodes, and brings them the models that they need.

Ray's own processes stay small: on each slot one of them hands cells to a child process, which holds torch.
"""
