"""What of a function belongs to its proofs: the statements that lead to `Part.proves`, without
those that need draws."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from clcore.book.proofs import names

MAKERS = {"part": "", "defines": "", "corrected": "corrected"}
"""Methods of a trial that begin a part -> the form that they give it."""
SAMPLED = ("add", "breaks", "says", "fails_by", "confirms")
"""Methods of a part that are about draws."""


@dataclass(frozen=True)
class Piece:
    """Source that a program takes over: one definition, or a function's share in its proofs.

    text: as it is written there, without annotations. loads: names of the module that it uses.
    own: names that are its own. proofs, left: how many statements that prove are in it, and how
    many had to stay behind."""

    text: str
    loads: frozenset[str]
    own: frozenset[str]
    proofs: int = 0
    left: int = 0


Placed = ast.expr | ast.stmt | ast.arg | ast.keyword
"""What of a tree has a place in the text."""


# ----------------------------------------------------------------------------- text by its tree


def only(text: str) -> ast.FunctionDef:
    """The function that a text is."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return function


def _at(lines: list[str], line: int, column: int) -> int:
    """Where a place of the tree, which counts bytes, is in the text."""
    inside = lines[line - 1].encode()[:column].decode()
    return sum(len(text) for text in lines[: line - 1]) + len(inside)


def span(text: str, node: Placed) -> tuple[int, int]:
    """First and last place of a node's text."""
    lines = text.splitlines(keepends=True)
    end = _at(lines, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return _at(lines, node.lineno, node.col_offset), end


def edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """The text with each stretch replaced; none of them may overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def source(text: str, node: Placed) -> str:
    """A node's text."""
    start, end = span(text, node)
    return text[start:end]


def plain(text: str) -> str:
    """A definition without annotations; those of a class stay, for a dataclass reads them."""
    edits = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg) and node.annotation:
            start, end = span(text, node)
            value = re.match(r"\s*=\s*", text[end:])
            after = end + value.end() if value else end
            edits.append((start + len(node.arg), after, "=" if value else ""))
        elif isinstance(node, ast.FunctionDef):
            if node.returns:
                start, end = span(text, node.returns)
                arrow = text.rindex("->", 0, start)
                edits.append((len(text[:arrow].rstrip()), end, ""))
            inner = [n for n in ast.walk(node) if isinstance(n, ast.AnnAssign) and n.value]
            edits += [_bare(text, n) for n in inner]
    edits += [_bare(text, n) for n in ast.parse(text).body if isinstance(n, ast.AnnAssign)]
    return edited(text, list(dict.fromkeys(edits)))


def _bare(text: str, node: ast.AnnAssign) -> tuple[int, int, str]:
    return span(text, node.target)[1], span(text, node.annotation)[1], ""


# ------------------------------------------------------------------------------ draws taken out


def _chain(node: ast.expr) -> ast.expr:
    """What methods are called on, one after the other."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func


def _parts(tree: ast.Module, trial: str) -> set[str]:
    """Names of parts: what is asked to prove, and what is begun here."""
    roots = [_chain(call) for call, method in _calls(tree) if method.attr == "proves"]
    found = {root.id for root in roots if isinstance(root, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _begins(node.value, trial):
            targets = [n for t in node.targets for n in ast.walk(t)]
            found |= {n.id for n in targets if isinstance(n, ast.Name)}
    return found - {trial}


def _begins(value: ast.expr, trial: str) -> bool:
    """Whether a part is begun in it, by the trial or, where that is out already, by itself."""
    makers = {"Part", *(f"{trial}.{name}" for name in MAKERS)}
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) in makers for n in ast.walk(value))


def without_draws(text: str, trial: str, proving: Callable[[str], bool]) -> str:
    """A function without its trial: its parts are made by `Part(name)`, only proofs are asked of
    them, and what is assigned side by side is assigned line by line.

    proving: whether a function asks for proofs, which is then called without the trial."""
    while edits := _sampled(text, ast.parse(text), trial):
        text = edited(text, edits)
    if not _tried(text, trial):
        return text
    while edit := _split(text, only(text)):
        text = edited(text, [edit])
    return _alone(text, trial, proving)


def _tried(text: str, trial: str) -> bool:
    """Whether a function has the trial as its first parameter."""
    function = only(text)
    return [a.arg for a in function.args.args][:1] == [trial]


def _sampled(text: str, tree: ast.Module, trial: str) -> list[tuple[int, int, str]]:
    """Edits that leave out what is about draws, of expressions that are not inside each other."""
    parts = {*_parts(tree, trial), trial}
    edits: list[tuple[int, int, str]] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        new = _left(text, node, parts, trial) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and new is not None:
            edits.append((*span(text, node), new))
        else:
            todo += ast.iter_child_nodes(node)
    return edits


def _left(text: str, node: ast.Call, parts: set[str], trial: str) -> str | None:
    """What is left of a call; None where it is not about draws."""
    if not isinstance(node.func, ast.Attribute):
        return None
    method, value = node.func.attr, node.func.value
    if method in MAKERS and isinstance(value, ast.Name) and value.id == trial:
        return _made(text, node, method)
    root = _chain(node)
    named = isinstance(root, ast.Name) and root.id in parts
    made = isinstance(value, ast.Call) and ast.unparse(value.func) == "Part"
    return source(text, value) if method in SAMPLED and (named or made) else None


def _split(text: str, function: ast.FunctionDef) -> tuple[int, int, str] | None:
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=aims)], value=ast.Tuple(elts=values)):
                bound = {aim.id for aim in aims if isinstance(aim, ast.Name)}
                used = {n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)}
                if len(bound) == len(aims) == len(values) and not bound & used:
                    pairs = zip(aims, values, strict=True)
                    lines = [f"{source(text, a)} = {source(text, v)}" for a, v in pairs]
                    return *span(text, node), f"\n{' ' * node.col_offset}".join(lines)
    return None


def _alone(text: str, trial: str, proving: Callable[[str], bool]) -> str:
    """The trial is no parameter, and no argument of what asks for proofs."""
    function = only(text)
    lists: list[tuple[list, list]] = [(function.args.args, function.args.kwonlyargs)]
    lists += [
        (call.args, call.keywords)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, (ast.Name, ast.Attribute))
        and proving(ast.unparse(call.func))
    ]
    edits = []
    for given, named in lists:
        if given and ast.unparse(given[0]) == trial:
            after = [*given[1:], *named]
            end = span(text, after[0])[0] if after else span(text, given[0])[1]
            edits.append((span(text, given[0])[0], end, ""))
    return edited(text, edits)


def _made(text: str, call: ast.Call, maker: str) -> str:
    given = [source(text, a) for a in call.args[:1] if source(text, a) != '""']
    more = {k.arg: source(text, k.value) for k in call.keywords}
    if "name" in more:
        given = [more["name"]]
    form = more.get("form") or (repr(MAKERS[maker]).replace("'", '"') if MAKERS[maker] else "")
    named = {"form": form, "setting": more.get("setting", ""), "claim": more.get("claim", "")}
    given += [f"{name}={value}" for name, value in named.items() if value]
    return f"Part({', '.join(given)})"


# ---------------------------------------------------------------------------------- the slice


def proves(tree: ast.AST) -> bool:
    """Whether a part is asked for a proof."""
    return any(method.attr == "proves" for _, method in _calls(tree))


def definition(text: str) -> Piece:
    """A definition that is taken over as it stands."""
    (statement,) = ast.parse(text).body
    known = names.of(statement)
    return Piece(text, known.loads - known.stores, known.own)


@dataclass(frozen=True)
class _Step:
    node: ast.stmt
    loads: frozenset[str]
    stores: frozenset[str]
    changes: frozenset[str]
    """Names of lists and the like that it may change in place."""
    own: frozenset[str]
    seed: bool


def _changed(node: ast.stmt) -> frozenset[str]:
    found = set()
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        root = _chain(node.value)
        found |= {root.id} if isinstance(root, ast.Name) else set()
    if isinstance(node, ast.Assign):
        aims = [t.value for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
        found |= {aim.id for aim in aims if isinstance(aim, ast.Name)}
    if isinstance(node, (ast.For, ast.While, ast.If, ast.With)):
        found |= set().union(*(_changed(inner) for inner in node.body))
    return frozenset(found)


def share(text: str, clean: Callable[[str], bool], proving: Callable[[str], bool]) -> Piece | None:
    """A function's share in its proofs; None where none of them stands by itself.

    clean: whether a name of the module can be taken over. proving: whether it is a function that
    asks for proofs of the parts that it is given.
    """
    whole = without_draws(text, "t", proving)
    function = only(whole)
    told = ast.get_docstring(function) and not _tried(text, "t")  # else it may tell of draws
    bound = names.local(function)
    steps = [_step(node, bound, proving) for node in function.body]
    given = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    kept: set[int] = set()
    proofs = left = 0
    for at, step in enumerate(steps):
        if step.seed:
            needed = _needed(steps, at, bound - given)
            ends = _returns(step.node)
            if all(_stands(steps[k], bound, clean) for k in needed):
                kept |= needed
                proofs += not ends
            elif ends:
                return None
            else:
                left += 1
    if not proofs:
        return None
    kept |= {0} if told else set()
    own = bound.union(*(steps[k].own for k in kept))
    said = Piece("", frozenset(), own, proofs, left)
    return _piece(whole, function, [steps[k] for k in sorted(kept)], said)


def _step(node: ast.stmt, bound: frozenset[str], proving: Callable[[str], bool]) -> _Step:
    known = names.of(node, bound)
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    asks = proves(node) and not isinstance(node, ast.FunctionDef)
    if called and isinstance(f := node.value.func, (ast.Name, ast.Attribute)):
        asks = asks or proving(ast.unparse(f))
    seed = asks or _returns(node)
    return _Step(node, known.loads, known.stores, _changed(node), known.own, seed)


def _returns(node: ast.AST) -> bool:
    """Whether a function may end in it."""
    if isinstance(node, ast.Return):
        return True
    inner = [] if isinstance(node, ast.FunctionDef) else list(ast.iter_child_nodes(node))
    return any(_returns(n) for n in inner if not isinstance(n, ast.expr))


def _needed(steps: list[_Step], seed: int, local: frozenset[str]) -> set[int]:
    """The steps that the one at `seed` needs, and itself."""
    late: frozenset[str] = frozenset()  # a function finds its names when it is called
    while True:
        wanted, needed = (steps[seed].loads & local) | late, {seed}
        for at in range(seed - 1, -1, -1):
            step = steps[at]
            if wanted & step.stores or (wanted & step.changes and not step.seed):
                needed.add(at)
                if isinstance(step.node, (ast.Assign, ast.FunctionDef, ast.AnnAssign)):
                    wanted -= step.stores
                wanted |= step.loads & local
        functions = [steps[k] for k in needed if isinstance(steps[k].node, ast.FunctionDef)]
        found = late.union(*(step.loads & local for step in functions))
        if found == late:
            return needed
        late = found


def _stands(step: _Step, bound: frozenset[str], clean: Callable[[str], bool]) -> bool:
    return all(name in bound or name in names.BUILTIN or clean(name) for name in step.loads)


def _piece(text: str, function: ast.FunctionDef, steps: list[_Step], said: Piece) -> Piece:
    """The function with these statements alone."""
    lines = text.splitlines()
    kept = lines[function.lineno - 1 : function.body[0].lineno - 1]
    for node in (step.node for step in steps):
        start = min(n.lineno for n in (node, *getattr(node, "decorator_list", [])))
        while lines[start - 2].strip().startswith("#"):
            start -= 1
        if not lines[start - 2].strip() and node is not steps[0].node:
            kept.append("")
        kept += lines[start - 1 : node.end_lineno]
    bound = names.local(function)
    loads = frozenset().union(*(step.loads for step in steps)) - bound
    loads |= {n.id for n in ast.walk(function.args) if isinstance(n, ast.Name)}  # defaults
    return replace(said, text="\n".join(kept) + "\n", loads=loads)
