"""What may be changed in a formula: of one node of the syntax tree, what may stand in its place."""

import ast
import copy
from collections.abc import Iterator

Change = tuple[str, ast.AST]

SWAPS = {
    "sum": ("mean", "mean for sum"),
    "mean": ("sum", "mean for sum"),
    "max": ("min", "extreme"),
    "min": ("max", "extreme"),
    "amax": ("amin", "extreme"),
    "amin": ("amax", "extreme"),
    "argmax": ("argmin", "extreme"),
    "argmin": ("argmax", "extreme"),
    "maximum": ("minimum", "extreme"),
    "minimum": ("maximum", "extreme"),
    "triu": ("tril", "mask"),
    "tril": ("triu", "mask"),
    "all": ("any", "condition"),
    "any": ("all", "condition"),
    "logical_and": ("logical_or", "mask"),
    "logical_or": ("logical_and", "mask"),
    "zeros": ("ones", "factor"),
    "ones": ("zeros", "factor"),
    "zeros_like": ("ones_like", "factor"),
    "ones_like": ("zeros_like", "factor"),
    "sin": ("cos", "function"),
    "cos": ("sin", "function"),
}
"""A function's name -> another that takes the same, and the kind of the change."""

DROPPED = {
    "detach": "detach",
    "transpose": "transpose",
    "t": "transpose",
    "swapaxes": "transpose",
    "permute": "transpose",
    "clamp": "gate",
    "clamp_min": "gate",
    "clip": "gate",
    "relu": "gate",
    "abs": "gate",
    "masked_fill": "mask",
    "tril": "mask",
    "triu": "mask",
    "square": "exponent",
    "sqrt": "exponent",
    "rsqrt": "exponent",
    "exp": "exponent",
    "log": "exponent",
    "normalize": "factor",
}
"""A function or method that gives what it was given, when it is dropped, and the kind of that."""

MODULES = {"torch", "np", "math", "F", "sympy", "numpy"}
"""Names whose attributes are functions; those of anything else are methods."""

OPERATORS: dict[type, tuple[tuple[type, str], ...]] = {
    ast.Add: ((ast.Sub, "sign"),),
    ast.Sub: ((ast.Add, "sign"),),
    ast.Mult: ((ast.Div, "factor"),),
    ast.Div: ((ast.Mult, "factor"),),
    ast.BitAnd: ((ast.BitOr, "mask"),),
    ast.BitOr: ((ast.BitAnd, "mask"),),
}

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}

AXES = {"dim", "dim0", "dim1", "dim2", "axis", "dims", "axes", "offset", "start_dim", "end_dim"}


def _with(node: ast.AST, **changed: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def _numeric(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool)


def below(node: ast.AST) -> Iterator[ast.AST]:
    """What to look at inside an expression. Slices and axes are changed where they stand, their
    constants not once more as factors; a lambda's arguments have no formula."""
    if isinstance(node, ast.Lambda):
        yield node.body
    elif isinstance(node, ast.Subscript):
        yield node.value
        yield from (n for n in _indices(node.slice) if not isinstance(n, ast.Slice))
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        for other in node.comparators:
            other.unordered = True  # whether something is among them has no order
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call):
        yield node.func
        yield from (a for a in node.args if not _negative(a))
        yield from (k.value for k in node.keywords if k.arg not in AXES)
    else:
        yield from ast.iter_child_nodes(node)


def _indices(node: ast.expr) -> list[ast.expr]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [part for part in parts if _integer(part) is None]


def _integer(node: ast.AST | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def _negative(node: ast.AST) -> bool:
    """Where a function is given one, it counts axes from the end."""
    return (_integer(node) or 0) < 0


def _number(value: int) -> ast.expr:
    return ast.parse(str(value), mode="eval").body


def _beside(index: int) -> ast.expr:
    """The index next to one: away from the end from which it counts."""
    return _number(index + 1 if index >= 0 else index - 1)


# --------------------------------------------------------------------------------- statements


def of_statement(node: ast.stmt, refuses: bool, judge: bool) -> Iterator[Change]:
    """refuses: it is an `if` that does nothing but raise. A plain function whose value nobody takes
    refuses, too."""
    if isinstance(node, ast.AugAssign):
        for op, kind in OPERATORS.get(type(node.op), ()):
            yield kind, _with(node, op=op())
        yield "dropped term", ast.Pass()
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if called and (judge or isinstance(node.value.func, ast.Attribute)):
        yield "dropped call", ast.Pass()
    if refuses:
        yield "refusal", _with(node, test=ast.Constant(False))


# -------------------------------------------------------------------------------- expressions


def of_expression(node: ast.AST, judge: bool) -> Iterator[Change]:
    """Every change of one node, with its kind; lists of words are a matter of the judge."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List) and not judge:
        return
    made = _BY_TYPE.get(type(node))
    if made is not None:
        yield from made(node)


def _binary(node: ast.BinOp) -> Iterator[Change]:
    for op, kind in OPERATORS.get(type(node.op), ()):
        yield kind, _with(node, op=op())
    if isinstance(node.op, ast.Add):
        yield "dropped term", node.left
        yield "dropped term", node.right
    elif isinstance(node.op, ast.Sub):
        yield "dropped term", node.left
        yield "dropped term", ast.UnaryOp(ast.USub(), node.right)
    elif isinstance(node.op, ast.Mult | ast.Div):
        yield "factor", node.left
        if isinstance(node.op, ast.Mult):
            yield "factor", node.right
    elif isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield "mask", node.left
        yield "mask", node.right
    elif isinstance(node.op, ast.MatMult):
        yield "transpose", _with(node, left=node.right, right=node.left)
    elif isinstance(node.op, ast.Pow):
        yield "exponent", node.left


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    kinds = {ast.USub: "sign", ast.Invert: "mask", ast.Not: "condition"}
    if type(node.op) in kinds:
        yield kinds[type(node.op)], node.operand


def _compare(node: ast.Compare) -> Iterator[Change]:
    if len(node.ops) == 1:
        for op in COMPARED.get(type(node.ops[0]), ()):
            yield "comparison", _with(node, ops=[op()])


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "condition", _with(node, op=other)
    for i in range(len(node.values)):
        rest = node.values[:i] + node.values[i + 1 :]
        yield "condition", _with(node, values=rest) if len(rest) > 1 else rest[0]


def _choice(node: ast.IfExp) -> Iterator[Change]:
    yield "gate", _with(node, body=node.orelse, orelse=node.body)


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "condition", ast.Constant(not node.value)
    elif _numeric(node):
        yield "factor", ast.Constant(2 * node.value if node.value else 1)


def _subscript(node: ast.Subscript) -> Iterator[Change]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for i, part in enumerate(parts):
        if (index := _integer(part)) is not None:
            yield "index", _with_part(node, i, _beside(index))
        elif isinstance(part, ast.Slice):
            for end in ("lower", "upper"):
                if getattr(part, end) is not None:
                    yield "index", _with_part(node, i, _with(part, **{end: None}))


def _with_part(node: ast.Subscript, i: int, new: ast.expr) -> ast.AST:
    if not isinstance(node.slice, ast.Tuple):
        return _with(node, slice=new)
    parts = [*node.slice.elts[:i], new, *node.slice.elts[i + 1 :]]
    return _with(node, slice=_with(node.slice, elts=parts))


def _attribute(node: ast.Attribute) -> Iterator[Change]:
    if node.attr in ("T", "mT", "H", "mH"):
        yield "transpose", node.value


def _call(node: ast.Call) -> Iterator[Change]:
    method = isinstance(node.func, ast.Attribute)
    name = node.func.attr if method else getattr(node.func, "id", "")
    if name not in ("reshape", "view", "expand"):
        yield from _axes(node)
    of_module = method and isinstance(node.func.value, ast.Name) and node.func.value.id in MODULES
    if name in SWAPS and (method or name in ("max", "min", "all", "any")):
        new, kind = SWAPS[name]
        func = _with(node.func, attr=new) if method else _with(node.func, id=new)
        yield kind, _with(node, func=func)
    if name in DROPPED:
        if method and not of_module:
            yield DROPPED[name], node.func.value
        elif node.args:
            yield DROPPED[name], node.args[0]
    if name == "where" and len(node.args) == 3:
        condition, yes, no = node.args
        yield "mask", _with(node, args=[condition, no, yes])


_OTHER_AXIS = {0: 1, 1: 0, -1: -2, -2: -1}


def _axes(node: ast.Call) -> Iterator[Change]:
    for i, given in enumerate(node.args):
        if _negative(given):
            other = _OTHER_AXIS.get(_integer(given), _integer(given) - 1)
            yield "index", _with(node, args=[*node.args[:i], _number(other), *node.args[i + 1 :]])
    for i, keyword in enumerate(node.keywords):
        index = _integer(keyword.value) if keyword.arg in AXES else None
        if index is not None:
            other = _OTHER_AXIS.get(index, index + 1)
            new = _with(keyword, value=_number(other))
            yield "index", _with(node, keywords=[*node.keywords[:i], new, *node.keywords[i + 1 :]])


def _elements(node: ast.Tuple | ast.Set | ast.List) -> Iterator[Change]:
    """Of a list of words: one less, or two that stand side by side exchanged."""
    words = [isinstance(e, ast.Constant) and isinstance(e.value, str) for e in node.elts]
    if len(words) < 2 or not all(words):
        return
    for i in range(len(words)):
        yield "element", _with(node, elts=node.elts[:i] + node.elts[i + 1 :])
    if not isinstance(node, ast.Set) and not hasattr(node, "unordered"):
        for i in range(len(words) - 1):
            swapped = [*node.elts[:i], node.elts[i + 1], node.elts[i], *node.elts[i + 2 :]]
            yield "order", _with(node, elts=swapped)


def _comprehension(node: ast.AST) -> Iterator[Change]:
    for i, generator in enumerate(node.generators):
        for j in range(len(generator.ifs)):
            fewer = _with(generator, ifs=generator.ifs[:j] + generator.ifs[j + 1 :])
            others = [*node.generators[:i], fewer, *node.generators[i + 1 :]]
            yield "condition", _with(node, generators=others)


_BY_TYPE = {
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _choice,
    ast.Constant: _constant,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Tuple: _elements,
    ast.Set: _elements,
    ast.List: _elements,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
