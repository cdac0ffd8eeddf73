"""Task files that are not lm-eval's own: whether loading them would run Python code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import lm_eval.api.metrics
import lm_eval.utils
import yaml
from jinja2.sandbox import SandboxedEnvironment
from lm_eval.api.registry import metric_registry

from tasks.errors import TaskError
from tasks.harness.files import FOLDER, LM_EVAL, composed, included

SHIPPED = (LM_EVAL.resolve(), FOLDER.resolve())
PLAIN = {  # tags of YAML that stand for data
    f"tag:yaml.org,2002:{kind}"
    for kind in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "binary", "merge", "value", "set")
}


def check_code(folders: Iterable[str | Path]) -> None:
    """Raise TaskError for a task file in ``folders``, or one that it includes, that names code to run.

    That is ``!function`` or another tag for Python objects, metrics that lm-eval would load as a script of the library
    ``evaluate``, and a ``custom_generate``, which transformers would run. Files that lm-eval ships are not read.
    """
    seen: set[Path] = set()
    for folder in folders:
        for file in sorted(file for file in Path(folder).glob("**/*.yaml") if not file.is_dir()):
            _check_file(file.resolve(), seen)


def confine_templates() -> None:
    """Have lm-eval render templates in a sandbox: without one, a template can call any function of Python."""
    free = lm_eval.utils.env
    if not isinstance(free, SandboxedEnvironment):
        confined = SandboxedEnvironment(undefined=free.undefined, keep_trailing_newline=free.keep_trailing_newline)
        confined.filters |= free.filters
        lm_eval.utils.env = confined


def _check_file(file: Path, seen: set[Path]) -> None:
    """Check a file and those that it includes."""
    if file in seen or any(file.is_relative_to(folder) for folder in SHIPPED):
        return
    seen.add(file)
    if not file.is_file():
        raise TaskError(f"{file}: no file")
    for node in _nodes(composed(file)):
        line = node.start_mark.line + 1
        if node.tag not in PLAIN:
            raise _refused(file, line, f"{node.tag} {node.value if isinstance(node, yaml.ScalarNode) else ''}".strip())
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if (key.value == "hf_evaluate" and not _is_false(value)) or (
                key.value == "metric" and isinstance(value, yaml.ScalarNode) and value.value not in metric_registry
            ):
                raise _refused(file, line, f"{key.value}: {value.value}, of the library evaluate,")
            if key.value == "custom_generate":
                raise _refused(file, key.start_mark.line + 1, f"{key.value}, which transformers loads,")
            if key.value == "include":
                for path in included(file, key, value):
                    _check_file(path, seen)


def _is_false(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:bool" and str(node.value).lower() in ("false", "no", "off")


def _refused(file: Path, line: int, what: str) -> TaskError:
    return TaskError(
        f"{file}: line {line}: {what} runs Python code that lm-eval does not ship: read it, and add --trust-task-code"
    )


def _nodes(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Every node of a document once; aliases may lead round in circles."""
    queue, known = [root] if root is not None else [], set()
    while queue:
        node = queue.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            queue += [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            queue += node.value
