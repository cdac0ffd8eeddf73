"""What a task says of data or of a model that it cannot work with."""


class TaskError(ValueError):
    """Data or a model that cannot be used, in one line: what is wrong, where, what would be right."""


def first_line(error: BaseException, most: int = 200) -> str:
    """The first line, at most ``most`` characters of it, of what went wrong at the root of ``error``."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= most else line[: most - 1] + "…"
