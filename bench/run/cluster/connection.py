"""Connect to a cluster, or start one on this machine, and leave it as it was."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.records.errors import InputError
from bench.run.options import ClusterOptions

# Nothing is reported to the makers of Ray.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
# Ray's name for listening on 127.0.0.1 alone, where it else takes the address that other machines reach.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
OBJECT_STORE = 200 * 2**20  # bytes, of a local cluster: its nodes find models in the cache of this machine
OUTSIDE = "ray://"  # before the address for a driver on no node of the cluster
# Whether a process sends a token, and answers only those who send it. Ray does not ask the cluster which it is.
MODE = "RAY_AUTH_MODE"
PATIENCE = 5.0  # seconds in which the head of a cluster must answer
LAST_PORT = 2**16 - 1
ASKING = 30.0  # seconds in which Ray must say whether it asks for a token


@contextmanager
def connected(options: ClusterOptions, jobs: int) -> Iterator[None]:
    """Inside, this process is connected to the cluster at the address; without one, to one of ``jobs`` slots here.

    A local cluster listens on 127.0.0.1 only and ends with this process. Raises InputError where there is no cluster.
    """
    _knock(options.address)  # again, as planning takes its time
    with _environment(options.address):
        ray = _connect(options, jobs)
        try:
            yield
        finally:
            ray.shutdown()


def check(address: str) -> None:
    """Raise InputError where Ray is missing, or nothing listens at the address."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray needs Ray: python -m pip install 'headbench[cluster]'")
    if address.startswith(OUTSIDE) and importlib.util.find_spec("grpc") is None:  # Ray says it in many lines
        ray = importlib.metadata.version("ray")
        raise InputError(f"--address {address} needs Ray's client: python -m pip install 'ray[client]=={ray}'")
    host, port = host_and_port(address)
    known = address in ("", "auto") or (host and port.isdecimal() and 0 < int(port) <= LAST_PORT)
    if not known:
        raise InputError(f"--address {address}: expected auto, HOST:PORT or ray://HOST:PORT")
    _knock(address)


@contextmanager
def _environment(address: str) -> Iterator[None]:
    """Inside, the environment says how Ray is to connect. It reads most of that when it is imported."""
    before = {name: os.environ.get(name) for name in (*QUIET, *LOOPBACK, MODE)}
    alone = not address or address.startswith(("127.0.0.1:", "localhost:"))
    os.environ.update(QUIET | (LOOPBACK if alone else {}))
    if address and MODE not in os.environ and _has_token():
        os.environ[MODE] = "token" if _asks_for_token(address) else "disabled"
    try:
        yield
    finally:  # of what Ray itself sets, too: what is started from here later may be for a cluster without tokens
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _asks_for_token(address: str) -> bool:
    """Whether a driver is to send its token.

    A driver that sends one also asks for one, so that the nodes of a cluster without tokens could not fetch from it
    what it sends them, and would take it to have died. One outside the cluster is asked by nobody.
    """
    if address.startswith(OUTSIDE):
        return True
    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:  # in a process of its own: this one keeps for good how it connected first
        said = subprocess.run(command, env=os.environ | {MODE: "disabled"}, capture_output=True, timeout=ASKING)
    except subprocess.TimeoutExpired:
        return False
    return b"InvalidAuthToken" in said.stderr


def _connect(options: ClusterOptions, jobs: int) -> Any:
    """Connect, and return Ray."""
    import ray

    address = options.address
    given: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": logging.CRITICAL}
    if not address:
        given |= {"num_cpus": jobs * options.cpus, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(**given)
    except (OSError, RuntimeError, ValueError) as error:
        what = _silent(address)
        refused = "InvalidAuthToken" in str(error.__cause__)  # Ray itself only says that it failed
        if address and (refused or not _has_token()):
            what += " (one that asks for a token answers only where RAY_AUTH_TOKEN or ~/.ray/auth_token has it)"
        raise InputError(f"{what}: {first_line(error)}") from error
    finally:
        for number, handler in handlers.items():  # Ray puts others in their place
            signal.signal(number, handler)
    return ray


def _silent(address: str) -> str:
    return f"--address {address}: no cluster answers there" if address else "Ray does not start here"


def _has_token() -> bool:
    """Whether this user has a token for clusters, which those that this user starts then ask for."""
    given = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return given or (Path.home() / ".ray" / "auth_token").is_file()


def _knock(address: str) -> None:
    """Raise InputError where nothing listens at ``HOST:PORT``. Ray would try for minutes."""
    host, port = host_and_port(address)
    if not host:
        return
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise InputError(f"{_silent(address)}: {first_line(error)}") from error


def host_and_port(address: str) -> tuple[str, str]:
    """The parts of ``HOST:PORT``, where an IPv6 address is in brackets; no host where there is none."""
    host, _, port = address.removeprefix(OUTSIDE).rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def first_line(error: BaseException) -> str:
    """What an error says first, or its class where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
