"""The paths of all files; no other module defines paths. docs/files.md describes the formats."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    root: Path  # runs, checkpoints, samples, results, reports, lineage of a scale
    shared: Path  # data, weights, features of the reference
    networks: Path | None = None  # weights, if they are elsewhere

    @property
    def _networks(self) -> Path:
        return self.shared if self.networks is None else self.networks

    def images(self, dataset: str) -> Path:
        """uint8, N x H x W x 3; beside it labels.npy and meta.json."""
        return self.shared / "data" / dataset / "images.npy"

    def test_images(self, dataset: str) -> Path:
        """The same for images that no training sees, if a dataset has a test split; beside it test_labels.npy."""
        return self.shared / "data" / dataset / "test_images.npy"

    def downloads(self) -> Path:
        """Downloaded files, unchanged; put there by `rtm fetch` or by hand."""
        return self.shared / "downloads"

    def contact_sheet(self, dataset: str) -> Path:
        return self.shared / "galleries" / "data" / f"{dataset}.png"

    def weights(self, network: str) -> Path:
        return self._networks / "weights" / f"{network}.safetensors"

    def network_downloads(self) -> Path:
        return self._networks / "downloads"

    def reference(self, dataset: str, protocol: str) -> Path:
        """Features of the training set under a protocol."""
        return self.shared / "features" / dataset / f"{protocol}.safetensors"

    def kept_features(self) -> Path:
        """Features of any images, found by the content of the images."""
        return self.shared / "features" / "kept"

    def run(self, experiment: str, fingerprint: str) -> Path:
        """State of a training; never the output of a rule."""
        return self.root / "runs" / experiment / fingerprint[:16]

    def checkpoint(self, experiment: str, seed: int | str) -> Path:
        return self.root / "checkpoints" / experiment / f"seed{seed}.safetensors"

    def curve(self, experiment: str, seed: int | str) -> Path:
        return self.root / "results" / experiment / "training" / f"seed{seed}.csv"

    def samples(self, experiment: str, seed: int | str) -> Path:
        """A folder with <variant>.npy, uint8, N x H x W x 3."""
        return self.root / "samples" / experiment / f"seed{seed}"

    def gallery(self, experiment: str, seed: int | str) -> Path:
        """A few images for the figures: samples, interpolations, neighbours."""
        return self.root / "galleries" / experiment / f"seed{seed}.npz"

    def metrics(self, experiment: str, protocol: str, seed: int | str) -> Path:
        return self.root / "results" / experiment / protocol / f"seed{seed}.json"

    def latency(self, experiment: str) -> Path:
        return self.root / "results" / experiment / "latency.json"

    def summary(self, experiment: str) -> Path:
        """Mean and standard deviation over the seeds; read by tables and `dvc metrics`."""
        return self.root / "results" / experiment / "metrics.json"

    def sweep(self, experiment: str) -> Path:
        """The summary's rows at other numbers H of refinement steps, for `dvc plots`."""
        return self.root / "results" / experiment / "sweep.csv"

    def foreign(self, name: str, protocol: str) -> Path:
        """Metrics of images that others generated."""
        return self.root / "results" / name / f"{protocol}.json"

    def table(self, name: str, suffix: str = ".tex") -> Path:
        return self.root / "reports" / f"{name}{suffix}"

    def figure(self, name: str, suffix: str = ".pdf") -> Path:
        return self.root / "reports" / "figures" / f"{name}{suffix}"

    def page(self) -> Path:
        return self.root / "reports" / "index.html"

    def log(self, stage: str, name: str) -> Path:
        """The output of a job."""
        return self.root / "logs" / stage / f"{name}.log"

    def receipt(self, stage: str, name: str) -> Path:
        return self.root / "lineage" / stage / f"{name}.json"

    def code(self, root: str) -> Path:
        """The definitions behind the hash of code in receipts."""
        return self.root / "lineage" / "code" / f"{root}.json"


def at_scale(path: Path, levels: int) -> str:
    """The option --scale for a file that is `levels` levels below its scale's folder. A scale has the name of its
    folder; a variant has the option of its scale."""
    scale = str(Path(*path.parts[:-levels] if levels else path.parts)).removeprefix("variants/")
    return "" if path.is_absolute() or scale in (".", "paper") else f" --scale {scale}"


def saved_states(run: Path) -> tuple[Path, Path]:
    """The last save in the folder of a training, and the save before it."""
    return run / "state.pt", run / "state.prev.pt"
