"""A page a claim in the book's own frame, claims/<paper>-<id>.html, and the claims for machines."""

from clcore.book.site.claims.frame import FOLDER, wrap
from clcore.book.site.claims.machines import citation, files
from clcore.book.site.claims.pages import answer, bodies, page_of

__all__ = ["FOLDER", "answer", "bodies", "citation", "files", "page_of", "wrap"]
