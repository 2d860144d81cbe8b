"""What generated pages of Markdown are put together from."""


def raw(html: str) -> str:
    """HTML inside a Markdown page."""
    return f"````{{raw}} html\n{html}\n````\n"
