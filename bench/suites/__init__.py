"""Suites as data: TOML files and flags come in; cells, each with its key, go out.

Knows nothing of the command line and of how cells are run; keys digest the modules that measure without importing them.
"""
