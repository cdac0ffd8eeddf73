"""What every record of the current protocol holds that is read of it: a file without that was not written by a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NUMBER = (int, float)
CELL: dict[str, Any] = {
    **dict.fromkeys(("task", "data", "model", "label", "device"), str),
    **dict.fromkeys(("seed", "calibration"), int),
    **{"options": dict, "asked": dict, "control": bool, "trained": (*NUMBER, type(None))},
}
PROVENANCE: dict[str, Any] = {"processor": str, "packages": dict, "commit": str}
RESULT: dict[str, Any] = {
    **dict.fromkeys(("removed", "quality", "metrics", "parameters", "megabytes"), list),
    **dict.fromkeys(("parts", "passes", "training"), dict),
    **{"units": int, "chance": NUMBER, "orders": (list, type(None))},
}
MEASURED: dict[str, Any] = {"scoring_seconds": NUMBER, "method_training_seconds": NUMBER, "latency": dict}


def check_shape(record: Mapping[str, Any]) -> None:
    """Raises ValueError for a part that is missing, of another type, or not as long as there are levels."""
    _check(record, "record", {"cell": dict, "provenance": dict, "status": str})
    _check(record["cell"], "cell", CELL)
    _check(record["provenance"], "provenance", PROVENANCE)
    if record["status"] != "done":
        return _check(record, "record", {"reason": str})
    _check(record, "record", {"result": dict, "measured": dict, "outcomes": str})
    result = record["result"]
    _check(result, "result", RESULT)
    _check(record["measured"], "measured", MEASURED)
    levels = len(result["removed"])
    draws = [*result["quality"], *result["metrics"]]
    if not draws or any(not isinstance(row, list) or len(row) != levels for row in draws):
        raise ValueError(f"quality or metrics are not those of {levels} levels")
    if any(len(result[name]) != levels for name in ("parameters", "megabytes")):
        raise ValueError(f"parameters or megabytes are not those of {levels} levels")
    if not all(isinstance(value, NUMBER) for row in result["quality"] for value in row):
        raise ValueError("quality holds something else than numbers")
    return None


def _check(part: Mapping[str, Any], name: str, expected: Mapping[str, Any]) -> None:
    for key, kind in expected.items():
        if key not in part:
            raise ValueError(f"{name} has no {key}")
        if not isinstance(part[key], kind) or (isinstance(part[key], bool) and kind is not bool):
            raise ValueError(f"{name} has a {key} of another kind: {type(part[key]).__name__}")
