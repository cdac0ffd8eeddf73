"""Another job on a cluster: it holds the CPU of each of some nodes, or takes all CPUs in turns.

Arguments: the address, the number of nodes and, for turns, the seconds of each: twice as many tasks as there are nodes
wait or are at work at any time. Prints a line once it is at work on all; ends with the next line of its input.
"""

from __future__ import annotations

import os
import select
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=1)
class Holder:
    """Holds a CPU."""

    def here(self) -> None:
        """Say that it does."""


@ray.remote(num_cpus=1)
def turn(seconds: float) -> None:
    """Use a CPU for so long."""
    time.sleep(seconds)


def main(address: str, number: int, seconds: float | None = None) -> None:
    ray.init(address, log_to_driver=False, logging_level="CRITICAL")
    nodes = [entry["NodeID"] for entry in ray.nodes() if entry["Alive"] and entry["Resources"].get("CPU")][:number]
    if seconds is None:
        places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        holders = [Holder.options(scheduling_strategy=place).remote() for place in places]
        ray.get([holder.here.remote() for holder in holders])
        print("at work", flush=True)
        sys.stdin.readline()
        return
    turns = [turn.remote(seconds) for _ in range(2 * number)]
    ended = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        ready, turns = ray.wait(turns, timeout=0.1)
        turns += [turn.remote(seconds) for _ in ready]
        ended += len(ready)
        if ready and ended == number:
            print("at work", flush=True)


if __name__ == "__main__":
    address, number, *seconds = sys.argv[1:]
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    main(address, int(number), *map(float, seconds))
