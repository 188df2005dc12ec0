"""Draw the figures of params/figures.yaml as PDF and PNG, from galleries, training curves and summaries."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine

from rtm.config import Config, Experiment
from rtm.config.experiments import OwnMapper, Recursive
from rtm.config.reports import FigureEntry
from rtm.core.files import atomic
from rtm.reports import curves, mosaics, plots
from rtm.reports.mosaics import DPI, WIDTH, Panel, read_gallery
from rtm.reports.style import STYLE
from rtm.stages.figure import Figure

MOSAICS = {
    "samples": mosaics.samples,
    "slerp": mosaics.slerp,
    "neighbours": mosaics.neighbours,
    "pairs": mosaics.pairs,
}
PLOTS = {
    "curves": curves.curves,
    "progress": curves.progress,
    "rejected": curves.rejected,
    "sweep": plots.sweep,
    "convergence": plots.convergence,
    "precision_recall": plots.precision_recall,
}
TITLE = 0.25  # inches
STATELESS = {".pdf": {"CreationDate": None, "Producer": None, "Creator": None}, ".png": {"Software": None}}


def render_figure(config: Config, name: str) -> list[Path]:
    """Write the figure; equal inputs give equal bytes."""
    figure: FigureEntry = config.pick("figures", name)
    experiments = [config.experiment(experiment) for experiment in figure.experiments]
    names = labels(experiments)
    with matplotlib.rc_context(STYLE):
        if figure.kind in MOSAICS:
            galleries = [read_gallery(config, experiment) for experiment in names]
            panels = MOSAICS[figure.kind](figure, list(names.values()), galleries)
            canvas = _arranged(panels, stacked=figure.kind == "slerp")
        else:
            canvas = Canvas(figsize=(WIDTH, 0.42 * WIDTH), layout="constrained")
            PLOTS[figure.kind](canvas, config, figure, names)
        outputs = Figure().job(config, figure=name).outputs
        return [_saved(canvas, path) for path in outputs.values()]


def labels(experiments: list[Experiment]) -> dict[str, str]:
    """A short name for each experiment: its mapper, and the dataset if they differ."""
    several_datasets = len({experiment.dataset_name for experiment in experiments}) > 1
    several_mappers = len({_mapper(experiment) for experiment in experiments}) > 1
    names = {}
    for experiment in experiments:
        parts = []
        if several_datasets:
            parts.append(experiment.dataset.title)
        if several_mappers or not several_datasets:
            parts.append(_mapper(experiment))
        names[experiment.name] = ", ".join(parts)
    return names


def _mapper(experiment: Experiment) -> str:
    mapper = experiment.mapper
    if isinstance(mapper, OwnMapper):
        return mapper.kind.rpartition(":")[2]
    if not isinstance(mapper, Recursive):
        return f"{mapper.layers}-layer MLP"
    attention = ", attention" if mapper.block == "attention" else ""
    return f"RTM (H={mapper.H}, L={mapper.L}){attention}"


def _arranged(panels: list[Panel], stacked: bool) -> Canvas:
    """Put panels side by side, or below each other, with their true proportions."""
    heights = [panel.image.shape[0] / panel.image.shape[1] for panel in panels]
    if stacked:
        grid = (len(panels), 1)
        height = WIDTH * sum(heights) + TITLE * len(panels)
    else:
        grid = (1, len(panels))
        height = WIDTH * max(heights) / len(panels) + TITLE
    canvas = Canvas(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(wspace=0.04))
    for place, panel in enumerate(panels, 1):
        axes = canvas.add_subplot(*grid, place)
        axes.imshow(panel.image, interpolation="none")
        axes.set_title(panel.title, fontsize=8)
        axes.set_xticks([])
        centres = [centre for centre, _ in panel.row_labels]
        axes.set_yticks(centres, [label for _, label in panel.row_labels])
        axes.tick_params(length=0, labelsize=6)
        axes.grid(False)
        axes.spines[:].set_visible(False)
    return canvas


def _saved(canvas: Canvas, path: Path) -> Path:
    with atomic(path) as file:
        canvas.savefig(
            file,
            format=path.suffix[1:],
            dpi=DPI,
            metadata=STATELESS[path.suffix],
            bbox_inches="tight",
            pad_inches=0.02,
        )
    return path
