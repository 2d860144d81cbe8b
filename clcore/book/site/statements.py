"""Statements under the papers' own numbers, with their verdicts. A Sphinx extension over
sphinx-proof, whose directives and role it takes over.

The label of a statement names its claim: `thm-acl-3` is acl/thm3, so that its box is headed "Tian
2022, Theorem 3", with the verdict of this build, and `{prf:ref}` prints the same. A statement of
another label is ours, and goes by its title. Figures and exercises are counted by chapter: Fig.
1.2.3 is the third of chapter 1.2.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.util.nodes import make_refnode
from sphinx_proof.directive import ElementDirective
from sphinx_proof.domain import ProofDomain
from sphinx_proof.proof_type import PROOF_TYPES

from clcore import ledger
from clcore.book.site.links import LEDGER, read_cards
from clcore.ledger.html import row_id

_LABEL = re.compile(r"(?P<kind>thm|lem|cor|def|ass)-(?P<paper>[a-z]+)-(?P<number>\d+[a-z]?)")
_CHAPTER = re.compile(r"\d+(\.\d+)?(?= )")


_KINDS = {"thm": "Theorem", "lem": "Lemma", "cor": "Corollary", "def": "Definition"}
_KINDS |= {"ass": "Assumption"}


def named(label: str) -> tuple[str, str | None]:
    """What the paper calls the statement of a label, "" for one of ours; and the claim that it is,
    None where the ledger has none, as of an assumption."""
    found = _LABEL.fullmatch(label)
    if not found:
        return "", None
    claim = f"{found['paper']}/{found['kind']}{found['number']}"
    paper = ledger.papers().get(found["paper"])
    if paper is None:
        return "", None
    number = f"{paper['cite']}, {_KINDS[found['kind']]} {found['number']}"
    return number, claim if claim in ledger.claims() else None


class Statement(ElementDirective):
    """A statement of sphinx-proof, headed by the paper's number for it."""

    def run(self) -> list[nodes.Node]:
        """The box: heading, verdict, and what sphinx-proof makes of the content."""
        made: Any = super().run()[0]
        env: Any = self.env
        label = made["label"]
        number, claim = named(label)
        said = self.arguments[0] if self.arguments else ""
        heading = nodes.title("", "")
        heading += nodes.inline("", number or made["realtype"].title(), classes=["caption-number"])
        if said:
            words, _ = self.state.inline_text(said, self.lineno)
            heading += [nodes.Text(" "), nodes.inline("", "", *words, classes=["cl-name"])]
        if claim:
            heading += [nodes.Text(" "), self._verdict(claim)]
        env.proof_list[label]["named"] = number or said or made["realtype"].title()
        box = nodes.admonition("", heading, *made.children[1:], classes=made["classes"])
        box["ids"] = made["ids"]
        return [box]

    def _verdict(self, claim: str) -> nodes.reference:
        verdict = read_cards(self.env.app.srcdir)[row_id(claim)]["verdict"]
        up = "../" * self.env.docname.count("/")
        word = nodes.inline("", verdict, classes=["cl-verdict", f"cl-{verdict.split()[0]}"])
        return nodes.reference("", "", word, refuri=f"{up}{LEDGER}.html#{row_id(claim)}")


class Statements(ProofDomain):
    """sphinx-proof's domain, whose references print the boxes' headings."""

    def resolve_xref(  # noqa: D102 (Sphinx's signature)
        self,
        env: Any,
        fromdocname: str,
        builder: Any,
        typ: str,
        target: str,
        node: Any,
        contnode: Any,
    ) -> Any:
        known = getattr(env, "proof_list", {}).get(target)  # set by the first statement
        if known is None or contnode.astext() != target:
            return super().resolve_xref(env, fromdocname, builder, typ, target, node, contnode)
        text = nodes.Text(known["named"])
        return make_refnode(builder, fromdocname, known["docname"], target, text)


def count_by_chapter(app: Any, env: Any) -> list[str]:
    """Number figures, tables and exercises of a chapter after its number, which its title has."""
    for page, kinds in env.toc_fignumbers.items():
        chapter = _CHAPTER.match(env.titles[page].astext())
        start = tuple(int(part) for part in chapter[0].split(".")) if chapter else ()
        for numbers in kinds.values():
            for at, node in enumerate(numbers, 1):
                numbers[node] = (*start, at)
    return []


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, after sphinx_proof."""
    app.add_domain(Statements, override=True)
    for name in PROOF_TYPES:
        app.add_directive_to_domain("prf", name, Statement)
    app.connect("env-get-updated", count_by_chapter, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
