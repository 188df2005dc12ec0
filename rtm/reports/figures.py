"""Draw the figures of params/figures.yaml as PDF and PNG, from galleries, training curves and summaries."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine

from rtm.config import Config, Experiment
from rtm.config.experiments import OwnMapper, Recursive
from rtm.config.reports import Figure
from rtm.core.files import atomic
from rtm.core.layout import Layout
from rtm.reports import mosaics, plots
from rtm.reports.mosaics import DPI, WIDTH, Panel, read_gallery

MOSAICS = {
    "samples": mosaics.samples,
    "slerp": mosaics.slerp,
    "neighbours": mosaics.neighbours,
    "pairs": mosaics.pairs,
}
PLOTS = {
    "curves": plots.curves,
    "progress": plots.progress,
    "rejected": plots.rejected,
    "sweep": plots.sweep,
    "convergence": plots.convergence,
    "precision_recall": plots.precision_recall,
}
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "pdf.fonttype": 42,  # text that can be selected and edited
}
STATELESS = {".pdf": {"CreationDate": None, "Producer": None, "Creator": None}, ".png": {"Software": None}}


def render_figure(config: Config, layout: Layout, name: str) -> list[Path]:
    """Write the figure; equal inputs give equal bytes."""
    figure: Figure = config.pick("figures", name)
    names = labels([config.experiment(experiment) for experiment in figure.experiments])
    with matplotlib.rc_context(STYLE):
        if figure.kind in MOSAICS:
            galleries = [read_gallery(config, layout, key) for key in names]
            canvas = _arranged(figure, MOSAICS[figure.kind](figure, list(names.values()), galleries))
        else:
            canvas = Canvas(figsize=(WIDTH, 0.42 * WIDTH), layout="constrained")
            PLOTS[figure.kind](canvas, config, layout, figure, names)
        return [_saved(canvas, layout.figure(name, suffix)) for suffix in STATELESS]


def labels(experiments: list[Experiment]) -> dict[str, str]:
    """A short name for each experiment: its mapper, and the dataset if they differ."""
    datasets = {experiment.dataset_name for experiment in experiments}
    mappers = {_mapper(experiment) for experiment in experiments}
    named = {}
    for experiment in experiments:
        parts = [experiment.dataset.title] if len(datasets) > 1 else []
        parts += [_mapper(experiment)] if len(mappers) > 1 or not parts else []
        named[experiment.name] = ", ".join(parts)
    return named


def _mapper(experiment: Experiment) -> str:
    mapper = experiment.mapper
    if isinstance(mapper, OwnMapper):
        return mapper.kind.rpartition(":")[2]
    if not isinstance(mapper, Recursive):
        return f"{mapper.layers}-layer MLP"
    return f"RTM (H={mapper.H}, L={mapper.L}){', attention' if mapper.block == 'attention' else ''}"


def _arranged(figure: Figure, panels: list[Panel]) -> Canvas:
    """Put panels side by side (strips of interpolations below each other), with their true proportions."""
    stacked = figure.kind == "slerp"
    heights = [panel.image.shape[0] / panel.image.shape[1] for panel in panels]
    height = WIDTH * (sum(heights) if stacked else max(heights) / len(panels))
    size = (WIDTH, height + 0.25 * (len(panels) if stacked else 1))
    canvas = Canvas(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04))
    grid = (len(panels), 1) if stacked else (1, len(panels))
    for place, panel in enumerate(panels, 1):
        axes = canvas.add_subplot(*grid, place)
        axes.imshow(panel.image, interpolation="none")
        axes.set_title(panel.title, fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([centre for centre, _ in panel.row_labels], [label for _, label in panel.row_labels])
        axes.tick_params(length=0, labelsize=6)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    return canvas


def _saved(canvas: Canvas, path: Path) -> Path:
    with atomic(path) as file:
        canvas.savefig(
            file, format=path.suffix[1:], dpi=DPI, metadata=STATELESS[path.suffix], bbox_inches="tight", pad_inches=0.02
        )
    return path
