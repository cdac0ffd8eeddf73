"""Running a model again after only some of its heads changed: same results, less work.

Takes models, batches and head maps; knows no method. Where a model's structure allows no shortcut, it runs in full.
"""

from methods.heads.incremental.graph_segments import observed_backward
from methods.heads.incremental.length_groups import LengthGroup, group_by_length
from methods.heads.incremental.restart import Restart, restarting

__all__ = ["LengthGroup", "Restart", "group_by_length", "observed_backward", "restarting"]
