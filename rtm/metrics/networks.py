"""The networks of a protocol: from images to features."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rtm.config.experiments import Protocol
from rtm.core.devices import best_device
from rtm.core.errors import UserError
from rtm.data.parts import lacking
from rtm.metrics.extractors import extractor_of
from rtm.metrics.feature_cache import FeatureCache
from rtm.metrics.features import FeatureSet, extract
from rtm.metrics.image_set import ImageSet
from rtm.metrics.images import Pictures, some_of

BATCH = 128

Weights = Mapping[str, Path]  # name of a network: its weights file


class Networks:
    """Each network runs once, and only on the images that need it."""

    def __init__(
        self,
        protocol: Protocol,
        weights: Weights,
        kept: Path | None = None,  # a folder that keeps features for later calls
    ) -> None:
        names: set[str] = {protocol.extractor, protocol.pr_extractor}
        self.protocol = protocol
        self.weights = weights
        self.kept = kept
        self.extractors = {name: extractor_of(name, weights[name], protocol.resize) for name in sorted(names)}
        self.digests = {name: extractor.digest for name, extractor in self.extractors.items()}

    def refuse_others(self, real: ImageSet) -> None:
        """Raise an error if other networks made the features of the real images."""
        if real.extractors != self.digests:
            raise UserError(
                "The reference was made with other weights than are here now; make it again with "
                "`rtm make reference/DATASET/PROTOCOL`."
            )

    def features(self, name: str, images: Pictures, count: int | None = None) -> FeatureSet:
        """Features of the first images, by default of all, from the folder that keeps them if they are there."""
        extractor = self.extractors[name]
        if self.kept is None or extractor.quick:
            return extract(images, extractor, BATCH, best_device(), count)
        count = len(images) if count is None else count
        return FeatureCache(self.kept, extractor, BATCH, best_device()).features(images, count)

    def image_set(
        self,
        images: Pictures,  # (N, H, W, 3)
        count: int | None = None,  # FID and IS use this many of the first images; by default all
        pr_count: int | None = None,  # precision and recall use this many of them; by default `count`
    ) -> ImageSet:
        protocol = self.protocol
        count = count or len(images)
        counts: dict[str, int] = {
            protocol.pr_extractor: min(pr_count or count, count),
            protocol.extractor: count,
        }
        sets = {name: self.features(name, images, number) for name, number in counts.items()}
        return ImageSet(sets[protocol.extractor], sets[protocol.pr_extractor], self.digests)

    def reference(self, images: Pictures) -> ImageSet:
        """Features of real images. Precision and recall use a random subset if the protocol asks for one."""
        whole = self.image_set(images)
        some = self.protocol.pr_reference
        if some is None or some >= len(images):
            return whole
        rows = some_of(len(images), some, seed=0)
        return replace(whole, coverage=FeatureSet(whole.coverage.features[rows], None))

    def missing(self, images: ImageSet) -> dict[str, str]:
        """The metrics that the weights files cannot give, each with a sentence that says why."""
        if images.quality.logits is not None or self.protocol.extractor != "inception":
            return {}
        path = self.weights["inception"]
        return {"is": f"{path} lacks {lacking('inception', path)}; see `rtm doctor`."}
