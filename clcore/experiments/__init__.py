"""The papers' protocols: what is trained, with which settings, and what is kept of it."""
