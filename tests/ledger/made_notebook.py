"""Notebooks made up for tests."""

import json


def notebook(*cells: tuple[str, str, str]) -> str:
    """The text of a notebook of these cells (type, id, source)."""
    made = [
        {"cell_type": kind, "id": name, "source": source.splitlines(keepends=True)}
        for kind, name, source in cells
    ]
    return json.dumps({"cells": made})
