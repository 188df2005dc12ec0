"""The stage `foreign`: measure images that others generated, by the same code as our own images."""

from pathlib import Path

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all, write_json
from rtm.core.layout import Layout
from rtm.metrics.compare import chosen, described
from rtm.metrics.evaluate import ImageSet, features_of, load_extractors, measure, missing_metrics
from rtm.metrics.images import load_images
from rtm.metrics.sets import Named


def write_foreign(config: Config, layout: Layout, name: str, protocol_name: str) -> None:
    """Check that the images are the ones that an entry of params/foreign.yaml means, and write their metrics."""
    foreign, protocol = config.params.foreign[name], config.params.protocols[protocol_name]
    path = Path(foreign.samples)
    if not path.exists():
        raise UserError(f"{path} is not here; put there what params/foreign.yaml names {name}: {foreign.source}.")
    if (found := digest_of_all(path)) != foreign.sha256:
        raise UserError(f"{path} has sha256 {found}, but params/foreign.yaml says {foreign.sha256} for {name}.")
    required, side = protocol.required(foreign.dataset), config.params.datasets[foreign.dataset].resolution
    one = Named(str(path), load_images(path), foreign.dataset)
    fake = chosen(one, required, required, 0, protocol)
    if fake.shape != (side, side):
        height, width = fake.shape
        raise UserError(f"{path} holds images of {width} x {height} px, the dataset of {side} x {side}: resize them.")
    real = ImageSet.load(layout.reference(foreign.dataset, protocol_name))
    extractors = load_extractors(protocol, layout, real)
    features = features_of(fake, protocol, extractors, None, protocol.pr_samples)
    written = {
        "images": str(path),
        "dataset": foreign.dataset,
        "protocol": protocol_name,
        "found": len(one.images),
        "samples": required,
        **described(measure(features, real, protocol), missing_metrics(features, protocol, layout)),
        "provenance": {"extractors": real.extractors, "samples_sha256": found, "source": foreign.source},
    }
    write_json(layout.foreign(name, protocol_name), written)
