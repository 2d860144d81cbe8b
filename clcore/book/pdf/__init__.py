"""The book on paper: every page of the site printed by Chromium at one scale, with a title page,
contents, page numbers and bookmarks; and decks of slides, one slide per page."""

from clcore.book.pdf.decks import decks
from clcore.book.pdf.printing import CREATOR, FOLDS, pages, write

__all__ = ["CREATOR", "FOLDS", "decks", "pages", "write"]
