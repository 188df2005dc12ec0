"""Wrap help texts to the screen. Each line of a verb's epilog, `command   explanation`, begins on a new line."""

import argparse
import re
import textwrap


class Help(argparse.HelpFormatter):
    """If the screen is narrow, a line continues below the beginning of its explanation."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + _filled(line, width - len(indent)) for line in text.splitlines())


def _filled(line: str, width: int) -> str:
    gap = re.search(r"\S {2,}", line)
    return textwrap.fill(line, width, subsequent_indent=" " * (gap.end() if gap else 0), break_on_hyphens=False)
