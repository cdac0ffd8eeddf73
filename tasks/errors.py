"""Errors about data and models that cannot be used."""


class TaskError(ValueError):
    """Data or a model that cannot be used, in one line: what is wrong, where, what would be right."""


def first_line(error: BaseException, most: int = 200) -> str:
    """First line of the message of the root cause of ``error``, at most ``most`` characters."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= most else line[: most - 1] + "…"
