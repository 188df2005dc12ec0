"""Numbers and sizes as texts."""

UNITS = ("B", "kB", "MB", "GB")
TIMES = (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1))


def counted(number: int, word: str) -> str:
    """1 result, 2 results."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {word}{plural}"


def space(size: float) -> str:
    """A size as text: 950 B, 1.2 MB, 3.4 GB."""
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size /= 1000
        power += 1
    number = f"{size:.3g}" if size < 999.5 else f"{size:,.0f}"
    return f"{number} {UNITS[power]}"


def short(count: int) -> str:
    """A count in at most five characters: 950, 12.3k, 1.17M."""
    if count < 1000:
        return str(count)
    if count < 999_500:
        return f"{count / 1e3:.3g}k"
    return f"{count / 1e6:.3g}M"


def duration(seconds: float) -> str:
    """A time as text: 12d4h, 3h20m, 5m10s, 7s."""
    for unit, size, below, part in TIMES:
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            return f"{whole:.0f}{unit}{int(rest // part)}{below}"
    return f"{seconds:.0f}s"
