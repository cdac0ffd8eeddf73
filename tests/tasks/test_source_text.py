"""The bare text of code: without comments and docstrings, and the same whichever version of Python writes it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tasks.source_text import bare

ROOT = Path(__file__).parents[2]


def test_comments_docstrings_and_layout_are_left_out():
    code = """'Module.'
import a  # why
class B:
    'Class.'
def f( x ):
    'Function.'
    return (x
      )
"""
    assert bare(code) == "import a\n\nclass B:\n    pass\n\ndef f(x):\n    return x"
    assert bare("def f():\n    return 'text'") == "def f():\n    return 'text'"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("f'{a}'", "f'{a}'"),
        ('f"a {b!r:>{width}} {{c}}"', "f'a {b!r:>{width}} {{c}}'"),
        ("""f"{x['a']} and {y}" """, """f"{x['a']} and {y}\""""),
        ("""f'it {", ".join(x)}'""", """f"it {', '.join(x)}\""""),
        ("""f"{x['a']}" 'say "b"' """, """f'''{x['a']}say "b"'''"""),
        ("""f'{x["b"]} \\''""", """f"{x['b']} '\""""),
        ("f'{ {1: 2}[1] }'", "f'{ {1: 2}[1]}'"),
        ("f'{a if b else c} {(lambda: 0)()}'", "f'{(a if b else c)} {(lambda: 0)()}'"),
        ("f'{a + b} {(a, b)} {not a}'", "f'{a + b} {(a, b)} {not a}'"),
        ("f'one\\ntwo\\t\\\\ \\x00 é {a}'", "f'one\\ntwo\\t\\\\ \\x00 é {a}'"),
        ("""f"{f'{a}' + b}" """, """f"{f'{a}' + b}\""""),
        ("f'{a=}'", "f'a={a!r}'"),
        ("f''", "f''"),
        ("print('a' f'{b}' 'c', r'\\d')", "print(f'a{b}c', '\\\\d')"),
    ],
)
def test_strings_with_values_are_written_in_one_way(code, text):
    assert bare(code) == text
    compile(text, "", "eval")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions write f-strings with other quotes")
def test_it_is_what_the_first_version_writes():
    """Digests of code that were made with Python 3.11 alone still hold."""
    for path in [*ROOT.glob("methods/**/*.py"), *ROOT.glob("tests/tasks/**/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        assert bare(path.read_text(encoding="utf-8")) == ast.unparse(tree), path
