"""A field below each exercise that asks for a number, or for a function of which one value can be
asked (probes.py). fields.js checks in the browser what a reader types there. A Sphinx extension.

A page does not print the numbers. Around each right one, numbers of two digits are its buckets: a
digest of the exercise's id and a bucket says half which bucket it is, and half hides the right
number in it. Whoever types a number near by can open it, and so can whoever tries them all: this
keeps nobody out, the folded solution stands below. data/fields.json has what `python -m
clcore.book.site.fields` makes of the judges, which a build of the site does not import.
"""

import hashlib
import json
import math
import struct
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from clcore import _paths
from clcore._files import read_json
from clcore.book.exercises.judge import NEAR
from clcore.book.exercises.text import title
from clcore.book.site.fragments import render

NAME = "fields.json"
_TAG = 8
"""Bytes of a digest that name a bucket; the next eight hide a number."""


def file() -> Path:
    """The file with what the pages need from the judges."""
    return _paths.root() / "data" / NAME


@cache
def read() -> dict[str, Any]:
    """What `file` has. usual: (words, operation, number) of each usual mistake. exercises: id ->
    within, the share that an answer may be off, sealed, as `sealed` makes them, and at, where the
    answer is a function: the arguments at which its value is asked for."""
    return read_json(file(), "`python -m clcore.book.site.fields` writes it")


def sealed(name: str, truth: float, within: float) -> list[str]:
    """The right number of an exercise, once for each bucket of numbers that are near (`NEAR`; none
    but the right one where within is 0): tag and hidden number, in hexadecimal. Raises ValueError
    for 0, of which no other number is near."""
    if not truth:
        raise ValueError(f"{name}: expected a right number other than 0")
    far = within and max(within, NEAR)
    ends = sorted((truth * (1 - far), truth * (1 + far)))
    step = 10.0 ** (math.floor(math.log10(abs(truth))) - 2)
    low, high = math.floor(ends[0] / step) - 1, math.ceil(ends[1] / step) + 1
    buckets = dict.fromkeys(_bucket(at * step) for at in range(low, high + 1))
    return sorted(_seal(name, bucket, truth) for bucket in buckets)


def _bucket(number: float) -> str:
    """A number of two digits, as `toExponential(1)` has it in a browser: 5.5e+0."""
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}e{int(power):+d}"


def _seal(name: str, bucket: str, truth: float) -> str:
    digest = hashlib.sha256(f"{name} {bucket}".encode()).digest()
    pad = digest[_TAG : 2 * _TAG]
    hidden = bytes(a ^ b for a, b in zip(struct.pack(">d", truth), pad, strict=True))
    return (digest[:_TAG] + hidden).hex()


def field(name: str) -> str:
    """The HTML of an exercise's field. Raises KeyError for one that has none."""
    own = {"at": ""} | read()["exercises"][name]
    usual = json.dumps(read()["usual"])
    return str(render("field.html", name=name, title=title(name), usual=usual, near=NEAR, **own))


class AddFields(SphinxPostTransform):
    """The field of an exercise comes last in its box."""

    default_priority = 900  # what is taken from the page as text is taken before

    def run(self, **kwargs: Any) -> None:
        """Called by Sphinx for each page."""
        if self.app.builder.format != "html":
            return
        for box in self.document.findall(nodes.Element):
            if box.get("type") == "exercise" and box.get("label") in read()["exercises"]:
                box += nodes.raw("", field(box["label"]), format="html")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(AddFields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
