"""One text from definitions of several modules: their order, the names that they get, imports."""

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from clcore.book.proofs import names, slices
from clcore.book.proofs.names import Name
from clcore.book.proofs.slices import Piece

_STANDARD = sys.stdlib_module_names


class Clash(ValueError):
    """Two things of one name that cannot be distinguished in one text."""


def first(of: Name) -> tuple[str, int]:
    """Where the statement that defines a name begins; one may define several."""
    return of.module, names.module(of.module).defined[of.name].lineno


def ordered(pieces: Mapping[Name, Piece], uses: Mapping[Name, set[Name]]) -> list[Name]:
    """Definitions as they may follow each other: modules after those that they use, each in its own
    order, a statement once."""
    modules: list[str] = []

    def visit(module: str, of: list[Name]) -> None:
        for other in sorted({use.module for name in of for use in uses[name]} - {module}):
            if other not in modules:
                visit(other, [name for name in pieces if name.module == other])
        if module not in modules:
            modules.append(module)

    for module in sorted({name.module for name in pieces}):
        visit(module, [name for name in pieces if name.module == module])
    at: dict[tuple[str, int], Name] = {}
    for name in pieces:
        at.setdefault(first(name), name)
    return sorted(at.values(), key=lambda name: (modules.index(name.module), first(name)[1]))


def named(
    pieces: Mapping[Name, Piece],
    uses: Mapping[Name, set[Name]],
    taken: set[str],
    given: Mapping[Name, str],
) -> dict[Name, str]:
    """The name of each definition in the text: its own, or with its module's before it where that
    is taken, by an import, another definition, or a variable that is used together with it.

    taken: names that none of them may have. given: those that have one already. Raises Clash."""
    known = dict(given)
    have: set[str] = set(taken)
    beside: dict[Name, set[str]] = defaultdict(set)
    for name, piece in pieces.items():
        for use in uses[name]:
            beside[use] |= piece.own if use.module != name.module else set()
    for name in (n for n in pieces if n not in given):
        short = name.module.split(".")[-1]
        tried = (name.name, f"{short}_{name.name.lstrip('_')}")
        free = [t for t in tried if t not in have and t not in beside[name]]
        if not free:
            raise Clash(f"{name.name} of {name.module}")
        known[name] = free[0]
        have.add(free[0])
    return known


def renamed(name: Name, piece: Piece, meant: Mapping[str, Name], given: Mapping[Name, str]) -> str:
    """A definition's text in which all that it uses has its name in the whole."""
    tree = ast.parse(piece.text)
    edits, attributes = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted = f"{node.value.id}.{node.attr}"
            use = meant.get(dotted)
            if use is not None and use in given:
                if node.value.id in piece.own:
                    raise Clash(f"{node.value.id} in {name.name}")
                edits.append((*slices.span(piece.text, node), given[use]))
                attributes.add(node.value)
    own = dict(meant)
    own |= {n: Name(name.module, n) for n in names.of(tree.body[0]).stores}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in attributes:
            use = own.get(node.id)
            if use is not None and given.get(use, node.id) != node.id:
                if node.id in piece.own:
                    raise Clash(f"{node.id} in {name.name}")
                edits.append((*slices.span(piece.text, node), given[use]))
    if (
        isinstance(head := tree.body[0], (ast.FunctionDef, ast.ClassDef))
        and given[name] != head.name
    ):
        start = piece.text.index(head.name, piece.text.index(" ", slices.span(piece.text, head)[0]))
        edits.append((start, start + len(head.name), given[name]))
    return slices.edited(piece.text, edits)


def imports(used: Mapping[str, Name]) -> str:
    """Import statements for names as they are used -> what they are of libraries."""
    whole, of = set(), defaultdict(set)
    for alias, name in used.items():
        if not name.name:
            plain = name.module.split(".")[0] == alias
            whole.add(f"import {name.module}" + ("" if plain else f" as {alias}"))
        else:
            of[name.module].add(name.name if name.name == alias else f"{name.name} as {alias}")
    lines = {f"from {m} import {', '.join(sorted(of[m]))}": m for m in of}
    lines |= {line: line.split()[1] for line in whole}
    theirs = [line for line, module in lines.items() if module.split(".")[0] in _STANDARD]
    ours = sorted(lines.keys() - theirs, key=_place)
    return (
        "\n\n".join("\n".join(part) for part in (sorted(theirs, key=_place), ours) if part) + "\n"
    )


def _place(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def joined(texts: list[str]) -> str:
    """Definitions one below the other; those of one line without a gap."""
    whole = texts[0]
    for before, text in pairwise(texts):
        short = all(
            t.count("\n") == 1 and not t.startswith(("def", "class")) for t in (before, text)
        )
        whole += text if short and text != texts[-1] else "\n\n" + text
    return whole
