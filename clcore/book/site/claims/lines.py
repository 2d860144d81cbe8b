"""The lines of a part as its claim's page shows them: those that meet in one block, and every
function of the checks that they name linked to its own lines, where a block names it first; and
what the names in them stand for."""

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from clcore.book.site import code
from clcore.ledger.html import placed
from clcore.ledger.written import meanings, reach
from clcore.ledger.written.paragraphs import Lines

_NAME, _DOT = r'<span class="n">(\w+)</span>', r'<span class="o">\.</span>'
_NAMED = re.compile(rf'(?<!{_DOT}){_NAME}(?:{_DOT}{_NAME})?(?!<span class="o">=</span>)')


def blocks(lines: Iterable[tuple[Lines, str]], paper: str) -> list[dict[str, Any]]:
    """Lines as they are shown: address from the site's root; function, its name; call and says, the
    parameters and the words of a helper whose head is not among the lines; of, its file and name;
    first and last; in, the part under which they are shown; and code, highlighted, with its links.

    lines: each with the part under which it is shown. paper: that of the page.
    """
    joined: list[tuple[Lines, str]] = []
    for one, shown in lines:
        if joined and joined[-1][1] == shown and joined[-1][0].meets(one):
            joined[-1] = (replace(joined[-1][0], last=one.last), shown)
        else:
            joined.append((one, shown))
    return [
        {
            "address": f"{code.page_of(one.file)}#L-{one.first}",
            "function": one.function,
            "of": (one.file, one.function),
            **_head(one, paper),
            "first": one.first,
            "last": one.last,
            "in": shown,
            "code": _linked(one),
        }
        for one, shown in joined
    ]


def names(lines: Iterable[Lines], paper: str) -> list[dict[str, str]]:
    """What the names in some lines stand for, on a page of a paper: name, call, says; and address,
    that of a function of the checks from the site's root, else ""."""
    return [
        {
            "name": one.name,
            "call": one.call,
            "says": placed(one.says, paper),
            "address": f"{code.page_of(one.file)}#L-{one.line}"
            if reach.of_checks(one.file)
            else "",
        }
        for one in meanings.of(list(lines))
    ]


def _head(one: Lines, paper: str) -> dict[str, str]:
    """The parameters and the words of a helper, where its lines are shown without its head."""
    node = reach.function(one.file, one.function).node
    if one.first <= node.lineno or node.decorator_list:
        return {"call": "", "says": ""}
    return {"call": meanings.call(node), "says": placed(meanings.words(node), paper)}


def _linked(one: Lines) -> Markup:
    """The lines, highlighted; what they name of the checks' functions is a link, once."""
    function = reach.function(one.file, one.function)
    seen: set[reach.Function] = set()

    def link(found: re.Match) -> str:
        name, inner = found[1], found[2]
        if name in reach.given(function):
            return found[0]
        node = ast.Name(name)
        other = reach.named(function, ast.Attribute(node, inner) if inner else node)
        if other is None or other == function or other in seen:
            return found[0]
        seen.add(other)
        address = f"../{code.page_of(other.file)}#L-{other.first}"
        return f'<a href="{address}">{found[0]}</a>'

    return Markup(_NAMED.sub(link, str(code.coloured(one.text))))
