"""What a task says of data or of a model that it cannot work with."""


class TaskError(ValueError):
    """Data or a model that cannot be used, in one line: what is wrong, where, what would be right."""
