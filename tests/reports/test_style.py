"""Lines can be told apart without colours."""

from rtm.reports.style import COLOURS, line_style


def test_colours_lines_and_markers_differ() -> None:
    styles = [line_style(place) for place in range(len(COLOURS))]
    for key in ("color", "linestyle", "marker"):
        assert len({style[key] for style in styles}) == len(COLOURS)
    assert line_style(len(COLOURS)) == styles[0]
