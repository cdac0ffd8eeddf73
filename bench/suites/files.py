"""Suites from TOML files, built in or your own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from bench.records.errors import InputError, unknown
from bench.suites.plugins import load_plugins
from bench.suites.suite import Suite
from bench.suites.validate import validated

FOLDER = Path(__file__).parent


def load_suite(name: str) -> Suite:
    """The built-in suite ``name``, or the suite in the TOML file at that path. Raises InputError."""
    load_plugins()
    path = Path(name)
    if path.suffix != ".toml":
        path = FOLDER / f"{name}.toml"
        if not path.is_file() and Path(name).exists():
            raise InputError(f"suite {name}: expected the name of a built-in suite, or a path that ends in .toml")
        if not path.is_file():
            raise InputError(f"{unknown('suite', name, built_in_suites())}; your own is a path that ends in .toml")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"suite {name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also of numbers too long, and of lists in lists in lists
        raise InputError(f"suite {name}: not valid TOML: {error}") from error
    known = Suite.model_fields.keys() - {"name"}
    for key in content:
        if key not in known:
            raise unknown(f"key in suite {name}:", key, known)
    try:
        values = {"tasks": [], "name": path.stem} | content
        return validated(Suite, values, lambda key, value: f"{key} = {value!r}")
    except InputError as error:
        raise InputError(f"suite {name}: {error}") from error


def built_in_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))
