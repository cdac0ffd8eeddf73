"""The command line of headbench and what it does. Imports go down: cli, run, measure; report, analysis, records."""

__version__ = "0.1.0"
