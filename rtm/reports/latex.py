"""LaTeX: escaping, the format of a cell, macro names, and the template environment."""

import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from rtm.reports.cells import Cell
from rtm.reports.mathematics import Piece, pieces, plain

SPECIAL = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "×": r"$\times$",
    "−": "$-$",
    "±": r"$\pm$",
    "∗": r"$^{\ast}$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "ε": r"$\varepsilon$",
}
ARROWS = {"higher": r" $\uparrow$", "lower": r" $\downarrow$", None: ""}
MARKS = {"best": r"\textbf{%s}", "second": r"\underline{%s}", None: "%s"}
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def environment() -> Environment:
    """Templates whose tags do not clash with TeX: << value >>, <% block %>, <# comment #>."""
    env = Environment(
        loader=PackageLoader("rtm.reports"),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.filters |= {
        "tex": escape,
        "cell": cell,
        "stacked": stacked,
        "arrow": ARROWS.__getitem__,
        "plain": plain,
    }
    return env


def escape(text: str) -> str:
    """Plain text to LaTeX; $...$ is mathematics and `...` becomes code."""
    return "".join(map(_piece, pieces(text)))


def stacked(text: str, align: str = "c") -> str:
    """Text for a cell; it keeps its line breaks."""
    lines = [escape(line) for line in text.split("\n")]
    return lines[0] if len(lines) == 1 else rf"\makecell[{align}]{{" + r" \\ ".join(lines) + "}"


def cell(cell: Cell) -> str:
    """Measured: plain; published: grey; measured on foreign images: double dagger; missing: dash and asterisk."""
    if cell.value is None:
        return r"--$^{\ast}$" if cell.state == "missing" else "--"
    text = MARKS[cell.mark] % number(cell.text)
    if cell.spread:
        text += rf"\,{{\scriptsize$\pm$\,{number(cell.spread)}}}"
    if cell.state == "published":
        return rf"\published{{{text}}}"
    return rf"{text}$^\ddagger$" if cell.state == "evaluated" else text


def number(text: str) -> str:
    """A number as shown; TeX puts no space after its commas."""
    return text.replace(",", "{,}")


def macro_name(*parts: str) -> str:
    """Letters only, digits spelled: ("tab_cifar10", "imle_rtm", "fid") is TabCifarOneZeroImleRtmFid."""
    name = ""
    for word in re.findall(r"[A-Za-z]+|[0-9]", "_".join(parts)):
        spelled = DIGITS[int(word)] if word.isdigit() else word
        name += spelled[0].upper() + spelled[1:]
    return name


def _piece(piece: Piece) -> str:
    if piece.kind == "math":
        return f"${piece.tex}$"
    if piece.kind == "code":
        return r"\texttt{" + _plain(piece.text).replace("--", "-{}-").replace("/", r"/\allowbreak{}") + "}"
    return _plain(piece.text)


def _plain(text: str) -> str:
    return "".join(SPECIAL.get(char, char) for char in text)
