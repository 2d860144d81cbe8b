"""Record the proofs again: python -m clcore.book.proofs."""

import typer

from clcore.book.proofs.recorded import main

typer.run(main)
