"""Programs that a reader runs on the pages: the Python that runs them."""
