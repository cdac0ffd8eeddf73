"""Many records to read: ``python -m tests.benchmarks.many_records FOLDER --records 50000``.

They are the committed ones again and again, each copy as further seeds of the same tasks or, with ``--as models``, as
the same seeds of further models. Times, qualities and removal orders are drawn anew around those of the original, so
that copies share no more with each other than records of different seeds do.
"""

from __future__ import annotations

import argparse
import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.records.storage.files import digest_of
from bench.records.storage.packed import read_stored
from bench.records.storage.store import Store

RESULTS = Path(__file__).parents[2] / "results" / "mini"


def write_many(folder: Path, records: int, as_models: bool = False) -> None:
    """Write so many records below ``folder``, which is made if need be."""
    originals = [(path, json.loads(read_stored(path))) for path in Store(RESULTS).paths()]
    seeds = 1 + max(content["cell"]["seed"] for _, content in originals)
    for number in range(records):
        copy, place = divmod(number, len(originals))
        path, content = originals[place]
        arrays = read_stored(path.with_suffix(".safetensors"))
        task, method, _ = path.relative_to(Store(RESULTS).folder).parts
        content = _varied(content, random.Random(number))
        cell = content["cell"]
        if as_models and copy:
            cell["model"] += f"-{copy}"
            task += f"-{copy}"
        elif not as_models:
            cell["seed"] += copy * seeds
        content["key"] = digest_of([number, content["key"]])
        content["outcomes"] = sha256(arrays).hexdigest()
        content["digest"] = digest_of(content)
        target = Store(folder).path(f"{task}/{method}/seed{cell['seed']}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".safetensors").write_bytes(arrays)
        target.write_text(json.dumps(content), encoding="utf-8")


def _varied(original: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A copy without digest, with times, qualities between the ends, and removal orders of its own."""
    content = json.loads(json.dumps({name: part for name, part in original.items() if name != "digest"}))
    result = content["result"]
    for row in result["quality"]:
        row[1:-1] = [min(1.0, max(0.0, value + draw.gauss(0, 0.005))) for value in row[1:-1]]
    for row in result["metrics"]:
        for metrics in row[1:-1]:
            metrics.update({name: value * draw.gauss(1, 0.005) for name, value in metrics.items()})
    for order in result.get("orders") or ():
        one, other = draw.sample(range(len(order)), 2)
        order[one], order[other] = order[other], order[one]
    content["measured"] = _scaled(content["measured"], draw)
    return content


def _scaled(part: Any, draw: random.Random) -> Any:
    """``part`` with every float in it, a time, up to 5 per cent longer."""
    if isinstance(part, dict):
        return {name: _scaled(value, draw) for name, value in part.items()}
    if isinstance(part, list):
        return [_scaled(value, draw) for value in part]
    return part * draw.uniform(1, 1.05) if isinstance(part, float) else part


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--as", choices=("seeds", "models"), default="seeds", dest="kind")
    given = parser.parse_args()
    write_many(given.folder, given.records, given.kind == "models")


if __name__ == "__main__":
    main()
