"""Record the proofs again: python -m clcore.book.proofs."""

from clcore.book.proofs.recorded import main

main()
