"""Titles and captions with any characters: LaTeX and the page show them as text and run nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path
from random import Random

from fuzz import fuzzer

from rtm.page.html import rich
from rtm.reports import latex
from rtm.reports.mathematics import COMMANDS, plain

PIECES = (
    *("$", "$", "$", "`", "\\", "{", "}", "^", "_", "^^5c", "^^M", "%", "#", "&", "~", "<", ">", '"', "'", "|", "\n"),
    *(
        r"\input{/etc/passwd}",
        r"\write18{id}",
        r"\immediate",
        r"\openout3=x",
        r"\def\x{",
        r"\end{document}",
        r"\csname",
    ),
    *(
        r"\times",
        r"\le ",
        r"\alpha_i",
        "H<8",
        "H=16",
        "x^2",
        "x_{1}",
        "10^{-3}",
        "×",
        "ε",
        "é",
        "漢",
        "a",
        " ",
        "5",
        "=",
    ),
    *("<script>", "</td>", "&lt;", "javascript:", "{{7*7}}", "<% for %>", "<<", ">>", "\\\\", "{,}", "[", "]"),
)
ALLOWED = {
    *("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "texttt", "allowbreak"),
    *("dagger", "ddagger", "ast", *COMMANDS),
}


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)


@fuzzer
def titles(rng: Random, folder: Path) -> None:
    text = "".join(rng.choices(PIECES, k=rng.randint(1, 25)))
    tex = latex.escape(text)
    bare = re.sub(r"\\[&%$#_{}]", "", tex)  # escaped characters are text
    commands = set(re.findall(r"\\([A-Za-z]+|.)", bare, re.S))
    assert commands <= ALLOWED, f"{commands - ALLOWED} would reach TeX"
    assert not set(bare) & set("%#&~") and "^^" not in bare, f"TeX would read {bare!r}"
    assert bare.count("$") % 2 == 0
    assert re.sub(r"\\[{}]", "", tex).count("{") == re.sub(r"\\[{}]", "", tex).count("}")
    assert set(_Tags(str(rich(text))).tags) <= {"i", "code", "br", "sup", "sub"}
    assert "\n" not in plain(text)
