"""What ends a run on a cluster is one line, with the node that it is of."""

from __future__ import annotations

import errno
import os

import pytest

from bench.records.errors import InputError
from bench.run.options import ClusterOptions

exceptions = pytest.importorskip("ray.exceptions", reason="Ray is not installed: headbench[cluster]")
CONTINUE = "; finished cells are kept: run the command again to continue"
FULL = errno.ENOSPC, os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(*FULL, "/cache/model"), "/cache/model: No space left on device"),
        (OSError(*FULL), "No space left on device"),
        (OSError("torn"), "torn"),
        (OSError(), "OSError"),
        (exceptions.OutOfDiskError("no room\nmore of it"), "no room"),
    ],
)
def test_a_fault_of_a_node_names_it(error, said):
    from bench.run.cluster.nodes import failed_on

    assert str(failed_on("second", error)) == f"node second: {said}{CONTINUE}"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.LocalRayletDiedError(), "the cluster at h:1 is gone (The task's local raylet died."),
        (exceptions.RaySystemError("lost"), "the cluster at h:1 is gone ("),
        (ConnectionRefusedError("no"), "the cluster at h:1 is gone (no)"),
        (exceptions.ObjectStoreFullError("no room"), "Ray: no room"),
        (exceptions.RuntimeEnvSetupError("bad"), "Ray: Failed to set up runtime environment."),
    ],
)
def test_what_ray_cannot_do_is_one_line(error, said):
    from bench.run.cluster.nodes import one_line

    with pytest.raises(InputError) as caught, one_line(ClusterOptions(address="h:1")):
        raise error
    text = str(caught.value)
    assert text.startswith(said) and text.endswith(CONTINUE) and "\n" not in text


def test_a_bug_in_a_task_keeps_its_traceback():
    from bench.run.cluster.nodes import one_line

    with pytest.raises(exceptions.RayTaskError), one_line(ClusterOptions()):
        raise exceptions.RayTaskError("take", "Traceback", ValueError("a bug"))
