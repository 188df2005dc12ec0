"""`rtm demo` from nothing to printed tables, with few steps and seeds. A second call has nothing to do."""

import json
from pathlib import Path

import pytest
from support.workspace import copied, run, with_short_classifier

pytestmark = pytest.mark.slow(seconds=22)
EXPERIMENTS = ("digits_mlp8", "digits_mlp16", "digits_rtm_h1", "digits_rtm")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = with_short_classifier(copied(tmp_path_factory.mktemp("demo")))
    for name, old, new in (
        ("demo", "seeds: [0, 1, 2]", "seeds: [0, 1]"),
        ("recipes", "epochs: 150\n", "epochs: 2\n"),
        ("recipes", "latency_passes: 40, latency_warmup: 5", "latency_passes: 3, latency_warmup: 1"),
        (
            "recipes",
            "looks: 10, extractor: digit_classifier, samples: 300",
            "looks: 2, extractor: digit_classifier, samples: 64",
        ),
        ("recipes", "samples: 1497, batch: 512", "samples: 300, batch: 512"),
        ("protocols", "samples: {digits300: 1497", "samples: {digits300: 300"),
    ):
        path = folder / f"params/{name}.yaml"
        assert old in path.read_text("utf-8")
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    return folder, run(folder, "rtm", "demo", "--cores", "2")


def test_it_prints_the_tables_and_where_everything_is(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert max(len(line) for line in output.splitlines()) <= 80
    for part in ("Done in", "±", "Prec.", "FID", "demo/reports/tab_*", "demo/reports/figures", "metrics.json"):
        assert part in output
    for name in ("tab_digits", "tab_digits_halt_sweep", "tab_digits_depth"):
        assert (folder / f"demo/reports/{name}.tex").exists()
    assert output.splitlines()[-1].split()[-1] == "demo/reports/index.html"


def test_the_page_has_a_chain_for_every_number(demo: tuple[Path, str]) -> None:
    page = (demo[0] / "demo/reports/index.html").read_text("utf-8")
    assert page.count('<details class="run done">') == 2 * len(EXPERIMENTS)
    assert "unchanged" in page
    assert not any(word in page for word in ("no chain", "inputs changed", "Not drawn yet", "Not measured yet"))


def test_every_variant_was_measured_on_every_seed(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    for name in EXPERIMENTS:
        metrics = json.loads((folder / f"demo/results/{name}/metrics.json").read_text("utf-8"))
        assert metrics["seeds"] == 2
        assert metrics["digits"]["fid"] > 0
        assert "fid_std" in metrics["digits"]
        assert metrics["latency"]["time_ms"] > 0
    assert {"digits_H4", "digits_H32"} <= metrics.keys()


def test_native_h_and_the_same_h_in_the_sweep_are_the_same_number(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    metrics = json.loads((folder / "demo/results/digits_rtm/metrics.json").read_text("utf-8"))
    assert metrics["digits_H8"]["fid"] == metrics["digits"]["fid"]


def test_a_second_run_has_nothing_to_do(demo: tuple[Path, str]) -> None:
    output = run(demo[0], "rtm", "demo")
    assert output.startswith("There is nothing to do")
    assert "Prec." in output
