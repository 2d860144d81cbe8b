"""Programs that prove what can be proved of a claim without draws, from the source of its check.

A program has the check's statements that lead to proofs and, of the modules of clcore, the
definitions that these use, in their order and as they stand there.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache

from clcore.book.proofs import assembly, names, part, slices
from clcore.book.proofs.names import Name
from clcore.book.proofs.slices import Piece
from clcore.ledger import claims, registry

KERNEL = "clcore.ledger.exact"
"""What decides whether something is shown; programs import it as `exact`."""


@dataclass(frozen=True)
class Program:
    """A program: its text, how many statements in it prove, and how many of the check's do not
    stand by themselves."""

    text: str
    proofs: int
    left: int


def _given(name: Name | None) -> bool:
    """Whether every program has it: libraries, the kernel and what is of it, the parts."""
    return name is not None and (
        name.outside or name.module == KERNEL or (name.name == "Part" and "ledger" in name.module)
    )


def _meant(module: str, name: str) -> Name | None:
    """What a name, perhaps with an attribute, means in a module."""
    base, _, attribute = name.partition(".")
    known = names.module(module).name(module, base)
    if known is None or known.name or known.outside or known.module == KERNEL:
        return known
    return names.found(Name(known.module, attribute)) if attribute else None


_open: list[Name] = []


def _clean(module: str, name: str) -> bool:
    """Whether it can be taken over, with all that it needs. What needs itself can."""
    meant = _meant(module, name)
    if name == "Part":
        return True
    if meant is None:
        return name.partition(".")[0] in names.BUILTIN
    if _given(meant) or meant in _open:
        return True
    return bool(meant.name) and _piece(meant) is not None


@cache
def _piece(of: Name) -> Piece | None:
    """The definition that a name of clcore has; None where it needs more than a program may."""
    known = names.module(of.module)
    if of.name not in known.defined:
        return None
    node = known.defined[of.name]
    text = slices.plain(_whole(known.text, node))
    _open.append(of)
    try:
        if _asks(of):
            return slices.share(
                text, lambda n: _clean(of.module, n), lambda n: _proving(of.module, n)
            )
        piece = slices.definition(text)
        return piece if all(_clean(of.module, n) for n in piece.loads) else None
    finally:
        _open.pop()


def _whole(text: str, node: ast.stmt) -> str:
    """A definition with the comments above it."""
    lines = text.splitlines()
    first = min(n.lineno for n in (node, *getattr(node, "decorator_list", [])))
    while first > 1 and lines[first - 2].startswith("#") and "----" not in lines[first - 2]:
        first -= 1
    return "\n".join(lines[first - 1 : node.end_lineno]) + "\n"


@cache
def _asks(of: Name) -> bool:
    """Whether it is a function that asks for proofs of parts, its own or those that it gets."""
    node = names.module(of.module).defined.get(of.name)
    if not isinstance(node, ast.FunctionDef):
        return False
    called = [
        n.value.func
        for n in ast.walk(node)
        if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
    ]
    return slices.proves(node) or any(
        _proving(of.module, ast.unparse(f))
        for f in called
        if isinstance(f, (ast.Name, ast.Attribute))
    )


@cache
def _proving(module: str, name: str) -> bool:
    meant = _meant(module, name)
    return meant is not None and not _given(meant) and bool(meant.name) and _asks(meant)


def _gather(of: Name, have: dict[Name, Piece]) -> None:
    """A definition and all that it needs."""
    if of in have or (piece := _piece(of)) is None:
        return
    have[of] = piece
    for use in _uses(of, piece).values():
        if not _given(use):
            _gather(use, have)


def _uses(of: Name, piece: Piece) -> dict[str, Name]:
    """Names as they stand in a definition, with their module before them where they have it, and
    what they are; but for parts and what is built in."""
    found = {}
    for loaded in sorted(piece.loads):
        base = loaded.partition(".")[0]
        known = names.module(of.module).name(of.module, base)
        written = loaded if known and not known.name and not _given(known) else base
        if known is not None and base != "Part" and (use := _meant(of.module, written)):
            found[written] = use
    return found


@cache
def program(claim_id: str) -> Program | None:
    """The program that proves what can be proved of a claim by itself; None where nothing can.

    Raises `assembly.Clash` where its definitions cannot stand in one text.
    """
    for place in registry.of(claim_id):
        start = Name(place.module, place.name)
        if place.on == "draws" and _asks(start) and (own := _piece(start)):
            return Program(_text(claim_id, place, start), own.proofs, own.left)
    return None


def proved(claim_id: str) -> bool:
    """Whether the check of a claim asks for proofs, that stand by themselves or do not."""
    places = registry.of(claim_id)
    return any(_asks(Name(place.module, place.name)) for place in places)


def _text(claim_id: str, place: registry.Place, start: Name) -> str:
    have: dict[Name, Piece] = {}
    _gather(start, have)
    meant = {of: _uses(of, piece) for of, piece in have.items()}
    uses = {of: {use for use in found.values() if use in have} for of, found in meant.items()}
    outside = {
        name.partition(".")[0]: _outside(use)
        for found in meant.values()
        for name, use in found.items()
        if _given(use)
    }
    given = assembly.named(have, uses, {*outside, "Part", "prove"}, {start: "prove"})
    order = [of for of in assembly.ordered(have, uses) if of != start]
    texts = [assembly.renamed(of, have[of], meant[of], given) for of in (*order, start)]
    head = _head(claim_id, place.path)
    shown = slices.plain(inspect.getsource(part.Part))
    return assembly.joined([f"{head}\n{assembly.imports(outside)}", shown, *texts, "prove()\n"])


def _head(claim_id: str, path: str) -> str:
    said = (
        f"{claim_id}: {claims()[claim_id]['title']}. What exact arithmetic shows of it, from its "
        f"check in {path}. Change something, and see what is shown no longer."
    )
    return textwrap.fill(said, 88, initial_indent="# ", subsequent_indent="# ") + "\n"


def _outside(use: Name) -> Name:
    if use.module != KERNEL:
        return use
    return Name("exact", use.name)


@cache
def kernel() -> str:
    """`exact` as a module of its own."""
    known = names.module(KERNEL)
    error = names.found(known.imported["LedgerError"])
    assert error is not None
    node = names.module(error.module).defined[error.name]
    line = f"from {known.imported['LedgerError'].module} import LedgerError\n"
    if line not in known.text:
        raise ValueError(f"{KERNEL}: expected the line {line.strip()!r}")
    return known.text.replace(line, "\n\n" + _whole(names.module(error.module).text, node) + "\n")
