"""The look of all plots."""

from typing import Any

# Okabe and Ito's colours for colour-blind readers; line styles and markers differ as well
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#777777"
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "pdf.fonttype": 42,  # text that can be selected and edited
    "svg.fonttype": "none",
}


def line_style(place: int) -> dict[str, Any]:
    """The style of the line at this place of the legend."""
    index = place % len(COLOURS)
    return {"color": COLOURS[index], "linestyle": LINES[index], "marker": MARKERS[index], "markersize": 5}
