"""clcore: the mathematics, the experiments and the ledger behind the book.

Nothing is re-exported here on purpose: chapters import the submodules they use, and the build
reads those imports to know which chapters an edit concerns.
"""

__version__ = "0.1.0"
