"""Ray is imported by some tests here, and reads then on which address clusters of this machine listen."""

from __future__ import annotations

import os

from bench.run.cluster.connection import LOOPBACK

os.environ.update(LOOPBACK)
