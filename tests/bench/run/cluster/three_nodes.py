"""A cluster of a head without CPUs and of nodes with one CPU each, in a process of its own, as it starts threads.

Arguments: a cache folder for each node. Prints a line of JSON with the address, that for a driver on no node, the
process of each node's raylet and that of the head; ends with the next line of its input.
"""

from __future__ import annotations

import json
import os
import socket
import sys

SMALL = {"include_dashboard": False, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}


def main(caches: list[str]) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET
    from ray.cluster_utils import Cluster

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "ray_client_server_port": port, **SMALL})
    for cache in caches:
        cluster.add_node(num_cpus=1, env_vars={"HEADBENCH_CACHE": cache}, **SMALL)
    raylets = [node.all_processes[PROCESS_TYPE_RAYLET][0].process.pid for node in cluster.worker_nodes]
    head = cluster.head_node.all_processes[PROCESS_TYPE_GCS_SERVER][0].process.pid
    outside = f"ray://127.0.0.1:{port}"
    print(json.dumps({"address": cluster.address, "outside": outside, "raylets": raylets, "head": head}), flush=True)
    sys.stdin.readline()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
