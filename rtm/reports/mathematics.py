"""Mathematics between dollar signs, in LaTeX, in HTML and as plain text.

Titles and captions are data. A formula that is not in this small language is shown as plain text and never reaches TeX,
because a command of TeX can read and write files.
"""

import re
import string
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
SIGNS = {
    "×": r"\times ",
    "±": r"\pm ",
    "·": r"\cdot ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "ε": r"\varepsilon ",
}
PLAIN = frozenset(string.digits + "+-=<>/.,:;!()[]|'* ")
LETTERS = frozenset(string.ascii_letters)
TOKENS = re.compile(r"\\[A-Za-z]+|.", re.DOTALL)
PIECES = re.compile(r"(\$(?!\s)[^$\n]+(?<!\s)\$|`[^`\n]+`)")
DEEPEST = 6  # most levels of braces


@dataclass(frozen=True)
class Piece:
    """A formula, code, or text."""

    kind: str  # "math", "code", "text"
    text: str  # without $ or `
    tex: str = ""  # only for a formula
    html: Markup = Markup("")  # noqa: RUF009  (it cannot change)

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(self.kind, self.text + other.text, self.tex + other.tex, self.html + other.html)


def pieces(text: str) -> Iterator[Piece]:
    """The parts of a title: $...$ is mathematics if it is in the small language, `...` is code."""
    for part in PIECES.split(text):
        inside = part[1:-1]
        if part.startswith("`") and len(part) > 2:
            yield Piece("code", inside)
            continue
        formula = _formula(inside) if part.startswith("$") and len(part) > 2 else None
        if formula:
            yield formula
        elif part:
            yield Piece("text", part)


def plain(text: str) -> str:
    """The text on one line, without LaTeX's signs."""
    texts = [f"`{piece.text}`" if piece.kind == "code" else piece.text for piece in pieces(text)]
    return "".join(texts).replace("\n", " ").replace("$", "")


def _formula(text: str) -> Piece | None:
    """A formula; None if it is not in the language."""
    tokens = deque(TOKENS.findall(text))
    try:
        formula = _sequence(tokens, 0)
    except (ValueError, LookupError):  # a sign or a command that is not in the language, or an early end
        return None
    return None if tokens else formula


def _sequence(tokens: deque[str], depth: int) -> Piece:
    """Atoms, each with at most one index and one exponent, up to a closing brace or the end."""
    whole = Piece("math", "")
    while tokens and tokens[0] != "}":
        whole += _atom(tokens, depth)
        tags = {"^": "sup", "_": "sub"}
        while tokens and tokens[0] in tags:
            sign = tokens.popleft()
            tag = tags.pop(sign)
            small = _atom(tokens, depth)
            html = Markup(f"<{tag}>{{}}</{tag}>").format(small.html)
            whole += Piece("math", f"{sign}{small.text}", f"{sign}{{{small.tex}}}", html)
    return whole


def _atom(tokens: deque[str], depth: int) -> Piece:
    """A group in braces, a command, a letter, a digit or a sign."""
    token = tokens.popleft()
    if token == "{" and depth < DEEPEST:
        group = _sequence(tokens, depth + 1)
        tokens.popleft()  # the closing brace
        return replace(group, tex=f"{{{group.tex}}}")
    if len(token) > 1:
        sign = COMMANDS[token[1:]]
        return Piece("math", sign, f"{token} ", escape(sign))
    if token in LETTERS:
        return Piece("math", token, token, Markup("<i>{}</i>").format(token))
    if token in SIGNS or token in PLAIN:
        return Piece("math", token, SIGNS.get(token, token), escape(" = " if token == "=" else token))
    raise ValueError
