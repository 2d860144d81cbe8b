"""Notebooks made up for tests."""

import json


def notebook(*cells: tuple[str, str, str], claims: list[str] | None = None) -> str:
    """The text of a notebook of these cells (type, id, source), with claims in its metadata."""
    made = [
        {
            "cell_type": kind,
            "id": name,
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        for kind, name, source in cells
    ]
    named = {} if claims is None else {"clcore": {"claims": claims}}
    return json.dumps({"cells": made, "metadata": named})
