"""Mathematics between dollar signs, in LaTeX, in HTML and as plain text.

Titles and captions are data. A formula that is not in this small language is shown as plain text and never reaches TeX,
because a command of TeX can read and write files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

COMMANDS = {
    "times": "×",
    "pm": "±",
    "cdot": "·",
    "le": "≤",
    "ge": "≥",
    "ne": "≠",
    "approx": "≈",
    "to": "→",
    "infty": "∞",
    "sum": "Σ",
    "sim": "∼",
    "in": "∈",
    "ell": "ℓ",
    "uparrow": "↑",
    "downarrow": "↓",
    "ldots": "…",
    "log": "log",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ϵ",
    "varepsilon": "ε",
    "lambda": "λ",
    "mu": "μ",
    "pi": "π",
    "sigma": "σ",
    "tau": "τ",
    "phi": "ϕ",
    "psi": "ψ",
    "theta": "θ",
    "Delta": "Δ",
    "Sigma": "Σ",
}
SIGNS = {"×": r"\times ", "±": r"\pm ", "·": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "ε": r"\varepsilon "}
PLAIN = frozenset("+-=<>/.,:;!()[]|'* ")
PIECES = re.compile(r"(\$(?!\s)[^$\n]+(?<!\s)\$|`[^`\n]+`)")
DEEPEST = 6  # most levels of braces


@dataclass(frozen=True)
class Piece:
    """A formula, code, or text."""

    kind: str  # "math", "code", "text"
    text: str  # without $ or `
    tex: str = ""  # only for a formula
    html: Markup = Markup("")  # noqa: RUF009  (it cannot change)


def pieces(text: str) -> Iterator[Piece]:
    """The parts of a title: $...$ is mathematics if it is in the small language, `...` is code."""
    for part in PIECES.split(text):
        inside = part[1:-1]
        if part.startswith("`") and len(part) > 2:
            yield Piece("code", inside)
        elif part.startswith("$") and len(part) > 2 and (formula := _formula(inside)):
            yield formula
        elif part:
            yield Piece("text", part)


def plain(text: str) -> str:
    """The text on one line, without LaTeX's signs."""
    shown = (f"`{each.text}`" if each.kind == "code" else each.text for each in pieces(text))
    return "".join(shown).replace("\n", " ").replace("$", "")


def _formula(text: str) -> Piece | None:
    """A formula; None if it is not in the language."""
    try:
        tex, html, shown, end = _sequence(text, 0, 0)
    except ValueError:
        return None
    return Piece("math", shown, tex, html) if end == len(text) else None


def _sequence(text: str, at: int, depth: int) -> tuple[str, Markup, str, int]:
    """Parse atoms, each with at most one index and one exponent, up to a closing brace or the end."""
    tex, html, shown = "", Markup(""), ""
    while at < len(text) and text[at] != "}":
        first, drawn, read, at = _atom(text, at, depth)
        used = ""
        while at < len(text) and text[at] in "^_" and text[at] not in used:
            sign = text[at]
            used += sign
            inner, raised, said, at = _atom(text, at + 1, depth)
            first += f"{sign}{{{inner}}}"
            drawn += Markup("<sup>{}</sup>" if sign == "^" else "<sub>{}</sub>").format(raised)
            read += f"{sign}{said}"
        tex, html, shown = tex + first, html + drawn, shown + read
    return tex, html, shown, at


def _atom(text: str, at: int, depth: int) -> tuple[str, Markup, str, int]:
    sign = text[at : at + 1]
    if sign == "{" and depth < DEEPEST:
        tex, html, shown, at = _sequence(text, at + 1, depth + 1)
        if text[at : at + 1] != "}":
            raise ValueError
        return f"{{{tex}}}", html, shown, at + 1
    if sign == "\\":
        found = re.compile(r"[A-Za-z]+").match(text, at + 1)
        if not found or found[0] not in COMMANDS:
            raise ValueError
        name = COMMANDS[found[0]]
        return f"\\{found[0]} ", Markup(escape(name)), name, found.end()
    if sign.isascii() and sign.isalpha():
        return sign, Markup("<i>{}</i>").format(sign), sign, at + 1
    if sign in SIGNS or (sign.isascii() and sign.isdigit()) or (sign and sign in PLAIN):
        return SIGNS.get(sign, sign), Markup(escape(f" {sign} " if sign == "=" else sign)), sign, at + 1
    raise ValueError
