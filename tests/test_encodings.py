"""Every text is read and written as UTF-8, whatever the locale: ruff sees most of it (PLW1514)."""

import ast

from clcore import _paths


def test_a_text_is_read_and_written_as_utf_8():
    found = []
    for file in sorted((_paths.root() / "clcore").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            given = {word.arg for word in node.keywords}
            if node.func.attr in ("read_text", "write_text") and "encoding" not in given:
                found.append(f"{file}:{node.lineno}")
    assert found == []
