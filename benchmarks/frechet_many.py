"""The Fréchet distance of 50,000 against 50,000 images, as StudioGAN's and torch-fidelity's tables have it."""

from benchmarks import frechet
from benchmarks.measuring import Groups, show


def measure(count: int = 50_000) -> Groups:
    found = frechet.measure(regimes=((count, count),))
    return {name.replace("distance ratios", f"distance of {count}, ratios"): values for name, values in found.items()}


if __name__ == "__main__":
    show(measure())
