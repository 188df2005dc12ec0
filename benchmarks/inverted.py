"""The approximate search of RS-IMLE on the 50,000 images of CIFAR-10, in the recipe's LPIPS features: recall against
probes. Draws docs/search_recall.png.

The pool has no generator. CIFAR-10's 10,000 test images stand in for samples, each also mirrored and moved by a few
pixels: 50,000 images like the data that are no copies of them. A real pool is ten times as large, and an early one is
less like the data.

An image finds its nearest sample if the sample's cell is among the probed ones, so the ranks of cells give the recall
for every number of probes. A whole search is timed, and its recall compared, for a few. It needs
`rtm fetch cifar10 vgg16` and a quarter of an hour of two cores, most of it for features.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import DEVICE, Groups, now
from rtm.config import load
from rtm.config.experiments import Ivf
from rtm.core.distances import nearest
from rtm.core.files import atomic
from rtm.core.pixels import to_unit
from rtm.core.progress import track
from rtm.core.randomness import seed_of
from rtm.data.datasets import Images, Pixels
from rtm.methods.imle.inverted import Inverted, InvertedMatch
from rtm.methods.imle.neighbours import Match, pairwise
from rtm.methods.imle.perceptual import Embedding, load_maps
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network

PICTURE = Path(__file__).parents[1] / "docs" / "search_recall.png"
CHUNK = 256
LISTS = 256
PROBES = (1, 2, 4, 8, 16, 32, 64, 128)
TIMED = (1, 4, 8)  # with the whole search; its recall is compared, too
REJECTED = 500  # of the samples to be rejected
MOVES = ((0, 0, False), (0, 0, True), (-2, 1, False), (1, -2, True), (2, 2, False))  # down, right, mirrored
RECALLS = {
    "all": "all images",
    "rare": "the rarest tenth of the images",
    "rejected": "samples to be rejected",
}


def moved(
    pixels: Pixels,
    down: int,
    right: int,
    mirrored: bool,
) -> Pixels:
    """The images moved, with their borders reflected."""
    images = pixels[:, :, ::-1] if mirrored else pixels
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    side = pixels.shape[1]
    return padded[:, 4 - down : 4 - down + side, 4 - right : 4 - right + side]


def features() -> tuple[Tensor, Tensor]:
    """Of the images and of the pool."""
    config = load("paper")
    imle = config.experiment("cifar10_imle_rtm").recipe.imle
    assert imle is not None
    device = torch.device(DEVICE)
    maps = load_maps(imle.perceptual, Network().path(config, "weights", network="vgg16")).to(device)
    embedding = Embedding(maps, 32, imle.projection, seed_of("search"), device)
    images = Dataset().path(config, "images", dataset="cifar10")
    test = Images(images.with_name("test_images.npy")).pixels

    def of(pixels: Pixels) -> Tensor:
        parts = []
        for start in track(range(0, len(pixels), CHUNK), "features", len(pixels) // CHUNK):
            part = torch.from_numpy(np.array(pixels[start : start + CHUNK]))
            parts.append(embedding(to_unit(part.permute(0, 3, 1, 2).to(device))))
        return torch.cat(parts)

    pool = [of(moved(test, *move)) for move in MOVES]
    return of(Images(images).pixels), torch.cat(pool)


def stream(match: Match, pool: Tensor) -> float:
    """Seconds of a round's search."""
    began = now()
    for start in range(0, len(pool), CHUNK):
        match.update(pool[start : start + CHUNK], start)
    match.finish()
    return now() - began


def ranks(
    queries: Tensor,
    base: Tensor,
    nearest_of: Tensor,  # the exact result: a row of `base` for each query
    centres: Tensor,
) -> Tensor:
    """How many cells lie before the one with the nearest vector: so many probes and one find it."""
    cells = pairwise(base, centres).argmin(1)
    distances = pairwise(queries, centres)
    needed = distances.gather(1, cells[nearest_of][:, None])
    return (distances < needed).sum(1)


def measure(read: Callable[[], tuple[Tensor, Tensor]] = features) -> Groups:
    data, pool = read()
    distances, _ = nearest(data, data, 2)
    spacing = torch.from_numpy(distances[:, 1])
    imle = load("paper").experiment("cifar10_imle_rtm").recipe.imle
    assert imle is not None
    radius = imle.epsilon * float(spacing.quantile(0.5))
    exact = Match(data)  # plain IMLE, because another rejection would leave another pool
    seconds = {"exact": stream(exact, pool)}
    near = (exact.observed < radius).nonzero().squeeze(1)
    rank = ranks(data, pool, exact.index, pool[:LISTS])
    rare = spacing.argsort(descending=True)[: len(data) // 10]
    recalls: dict[str, dict[str, float]] = {name: {} for name in RECALLS}
    for probes in PROBES:
        name = str(probes)
        inverted = Inverted(data, search_of(probes), 0.0, spacing)
        found = inverted.to_images(pool[near[:REJECTED]]) < radius**2
        recalls["all"][name] = share(rank < probes)
        recalls["rare"][name] = share(rank[rare] < probes)
        recalls["rejected"][name] = share(found)
        if probes in TIMED:
            began = now()
            match = InvertedMatch(inverted, 0, len(pool), pool[:LISTS], torch.arange(LISTS, device=data.device))
            stream(match, pool)
            seconds[name] = now() - began
            by_search = share(match.squared <= exact.squared)
            assert abs(by_search - recalls["all"][name]) < 0.01, (by_search, recalls["all"][name])
    pool_like = {
        "nearest sample / nearest other image, medians": float(exact.squared.sqrt().median() / spacing.median()),
        "share of the pool to be rejected": len(near) / len(pool),
    }
    size = f"{len(data)} images, {len(pool)} samples, {LISTS} lists"
    named = {f"search recall by probes, {RECALLS[kind]}": values for kind, values in recalls.items()}
    return {**named, f"search by probes, {size}, CPU s": seconds, "search, the pool's likeness to the data": pool_like}


def search_of(probes: int) -> Ivf:
    return Ivf(kind="ivf", lists=LISTS, probes=probes, checked=1)


def share(flags: Tensor) -> float:
    return float(flags.double().mean())


def draw(groups: Groups, path: Path) -> None:
    """Draw recall against probes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for title, colour in zip(RECALLS.values(), ("#4477aa", "#cc3311", "#999999"), strict=True):
        values = groups[f"search recall by probes, {title}"]
        heights = [values[str(probes)] for probes in PROBES]
        panel.plot(PROBES, heights, "o-", color=colour, label=title)
    panel.axhline(Ivf.model_fields["least"].default, color="black", linewidth=0.8, linestyle=":")
    panel.set_xscale("log", base=2)
    panel.set_xticks(PROBES, [str(probes) for probes in PROBES])
    panel.set_xlabel(f"probes, of {LISTS} lists")
    panel.set_ylabel("recall")
    panel.set_ylim(0, 1.02)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=100)


if __name__ == "__main__":
    import json

    from benchmarks.__main__ import RESULTS, main

    main(["inverted"])
    draw(json.loads(RESULTS.read_text("utf-8"))["measured"]["inverted"], PICTURE)
