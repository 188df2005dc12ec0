"""Numbers and sizes as texts."""


def counted(number: int, word: str) -> str:
    """1 result, 2 results."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def space(size: float) -> str:
    """A size as text: 950 B, 1.2 MB, 3.4 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"
