"""clcore: the mathematics, the experiments and the ledger behind the book.

The library is `losses`, `sweep`, `nets`, `images`, `theory` and `random`; `ledger`, `experiments`,
`reference`, `checks` and `book` stand on it. Nothing is imported here, so that a part costs only
itself, and the build can tell from imports which chapters an edit concerns.
"""

from importlib.metadata import version

__version__ = version("clcore")
