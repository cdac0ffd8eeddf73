"""This process and its place: signals, the process that started it, and the processor cores that it may use."""
