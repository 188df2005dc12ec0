"""Datasets, recipes and protocols: what their entries say, and what follows from them."""

from support.datasets import DATASETS


def test_every_dataset_says_where_it_comes_from() -> None:
    assert len(DATASETS) == 20
    counts = {name: dataset.count for name, dataset in DATASETS.items()}
    assert counts == {
        "digits": 1797, "digits300": 300, "digits_rest": 1497, "cifar10": 50_000,
        "celebahq": 30_000, "afhq": 14_630, "obama": 100, "grumpy_cat": 100,
        "panda": 100, "ffhq100": 100, "cat": 160, "dog": 389, "anime": 120, "skulls": 97, "shells": 64,
        "imagenet64": 1281167,
        "cifar10_horse100": 100, "cifar10_horse_rest": 1000, "cifar10_500": 500, "cifar10_500_rest": 1000,
    }  # fmt: skip
    for dataset in DATASETS.values():
        assert dataset.licence and dataset.citation
        assert dataset.sources or dataset.of or dataset.kind == "digits"
        for source in dataset.sources:
            assert (source.url or source.page or "https://").startswith("https://")
            assert "/" not in source.name and source.name
