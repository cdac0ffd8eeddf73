"""Source code as a text that is the same for every version of Python, without comments, docstrings and layout."""

from __future__ import annotations

import ast

QUOTES = ("'", '"', '"""', "'''")


def bare(source: str) -> str:
    """The code of a module in one layout. Raises SyntaxError for what is no Python.

    ``ast.unparse`` with the f-strings of Python 3.11: later ones write them with other quotes.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(_FStrings().visit(tree))


class _FStrings(ast.NodeTransformer):
    """Puts a name in the place of each f-string: ``unparse`` writes a name as it stands, whatever is in it."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Name:
        text, quotes = "", list(QUOTES)
        for value in node.values:
            part = self._part(value)
            quotes = [quote for quote in quotes if quote not in part] or quotes
            quotes.sort(key=lambda quote: quote[0] == part[-1:])
            text += part
        return ast.Name(f"f{quotes[0]}{text}{quotes[0]}")

    def _part(self, node: ast.expr) -> str:
        """What stands between the quotes for a text, or for a value with what follows it in the braces."""
        if isinstance(node, ast.FormattedValue):
            value = self._inner(node.value)
            conversion = f"!{chr(node.conversion)}" if node.conversion != -1 else ""
            layout = ""
            if isinstance(node.format_spec, ast.JoinedStr):
                layout = ":" + "".join(map(self._part, node.format_spec.values))
            return f"{{{' ' * value.startswith('{')}{value}{conversion}{layout}}}"
        assert isinstance(node, ast.Constant) and isinstance(node.value, str)
        return "".join(map(_escaped, node.value.replace("{", "{{").replace("}", "}}")))

    def _inner(self, value: ast.expr) -> str:
        """A value in braces, which stands in parentheses where it would as a condition."""
        whole = ast.unparse(ast.IfExp(test=self.visit(value), body=ast.Name("a"), orelse=ast.Name("b")))
        return whole.removeprefix("a if ").removesuffix(" else b")


def _escaped(character: str) -> str:
    shown = character.isprintable() and character != "\\"
    return character if shown else character.encode("unicode_escape").decode()
