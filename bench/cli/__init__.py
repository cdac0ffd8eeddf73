"""The command line: arguments come in, verbs are run, text and an exit code go out.

The parser imports no torch and each verb imports what it needs, so that reading results and --help start fast.
"""
