"""Task files of lm-eval, read without loading it: what it would pass over in silence is an error."""

from __future__ import annotations

from pathlib import Path

import yaml

from tasks.errors import TaskError, first_line


def composed(file: Path) -> yaml.Node | None:
    """The content of a YAML file, in which no tag has been followed. Raises TaskError, with the line."""
    try:
        return yaml.compose(file.read_bytes(), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise TaskError(f"{file}: {where}not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise TaskError(f"{file}: not valid YAML: {first_line(error)}") from error


def check_files(name_or_folder: str) -> None:
    """Raise TaskError for a file in the place of a folder, and for a file in the folder that is no YAML."""
    place = Path(name_or_folder)
    if place.is_file():
        raise TaskError(f"{place}: a file; give the folder that it is in, or the name of a task")
    for file in sorted(file for file in place.glob("**/*.yaml") if file.is_file()) if place.is_dir() else ():
        root = composed(file)
        for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
            text = not isinstance(value, yaml.ScalarNode) or value.tag == "tag:yaml.org,2002:str"
            if key.value == "task" and not text:
                raise TaskError(
                    f"{file}: line {key.start_mark.line + 1}: task: {value.value or 'null'} is not a name: expected "
                    "text, if need be in quotes"
                )
