"""A real browser shows all results on the page, with and without scripts, on large and small screens."""

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from page.browser import Browser, browser
from PIL import Image
from support import ROOT, fake_results
from support.reports import DEMO, PAPER, SMOKE

from rtm.config import Config
from rtm.page.html import difference, rich, write_page
from rtm.pipeline.status import RunStatus
from rtm.reports.figures import render_figure
from rtm.reports.sheets import build
from rtm.stages.figure import Figure
from rtm.stages.report import Report
from rtm.stages.train import Train

STATES = ("failed", "running", "waiting", "done")
TABLES = 2 * len(PAPER.tables) - 1  # ours and the paper's; the paper has none on convergence


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(experiment: str, state: Any, step: int = 0, log: Path | None = None) -> RunStatus:
    total = PAPER.experiment(experiment).steps()
    status = RunStatus(
        experiment,
        0,
        "waiting",
        step,
        total,
        gpu_hours=1.5,
        job="4711",
        host="gpu1",
        log=log,
    )
    if state == "running":
        return replace(status, state="running", speed=2.0, remaining=7200.0)
    return replace(status, state=state, step=total if state == "done" else step)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The paper's page: two experiments are measured, one runs, one failed, and the others wait."""
    root = tmp_path_factory.mktemp("page")
    config = PAPER.at(root)
    for name, fid in {"cifar10_imle_mlp": 5.8, "cifar10_imle_rtm": 3.9}.items():
        fake_results.write_results(config, name, {"paper": {"fid": fid, "precision": 0.9, "recall": 0.738}})
        fake_results.write_curves(config, name)
    render_figure(config, "fig_curves_cifar10")
    failed = Train().job(config, experiment="obama_imle_rtm", seed=0).log
    failed.parent.mkdir(parents=True)
    failed.write_text("step 1\n" * 50 + "rtm: it <diverged> & stopped\n", "utf-8")
    going = root / "runs/panda/log.jsonl"
    going.parent.mkdir(parents=True)
    for step in (50, 100):
        Image.new("RGB", (64, 64), (step, 0, 0)).save(going.with_name(f"grid_{step:09d}.png"))
    going.write_text('{"step": 1, "loss": 2.0}\n{"step": 100, "loss": 1.0}\n{"step": 2', "utf-8")
    states = {"cifar10_imle_mlp": "done", "cifar10_imle_rtm": "done", "obama_imle_rtm": "failed"}
    runs = [run(name, states.get(name, "waiting")) for name in PAPER.experiments if name != "panda_imle_rtm"]
    write_page(config, [*runs, run("panda_imle_rtm", "running", 1000, going)])
    return config


@pytest.fixture(scope="module")
def page(paper: Config) -> str:
    return Report().path(paper, "page").read_text("utf-8")


class Checked(HTMLParser):
    """Check that all tags are closed, and collect the ids and everything that is fetched or linked."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.sources += [values[key] for key in ("src", "srcset", "poster", "data") if key in values]
        self.sources += [values["href"]] if tag == "link" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())


def test_it_is_whole_and_needs_no_network(page: str) -> None:
    checked = Checked(page)
    assert len(checked.ids) == len(set(checked.ids))
    assert all(link.startswith("#") and link[1:] in checked.ids for link in checked.links)
    stories = re.findall(r'<details class="story".*?<summary>(.*?)</summary>', page, re.S)
    assert len(stories) == len(set(stories))
    assert checked.sources
    assert all(source.startswith("data:") for source in checked.sources)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://", page)
    assert len(page) < 3_000_000


def test_every_table_figure_curve_and_experiment_is_there(page: str) -> None:
    for name, table in PAPER.tables.items():
        assert f'id="{name}"' in page
        titles = [row.title for group in table.groups for row in group.rows]
        titles += [column.title for column in table.columns]
        assert all(str(rich(title)) in page for title in titles)
    for name, figure in PAPER.figures.items():
        assert f'id="{name}"' in page
        assert str(rich(figure.caption)) in page
    for name in PAPER.experiments:
        assert f"{name} <small>seed 0</small>" in page
    for title in ("loss", "rejected share of the pool", "FID", "precision", "recall"):
        assert f'alt="{title} of cifar10_imle_mlp, cifar10_imle_rtm over the steps"' in page
    assert page.count("data:image/svg+xml") == 6  # five numbers of one pair, and the loss of the running training


def test_what_is_missing_says_what_makes_it(page: str, paper: Config) -> None:
    assert f"snakemake --profile slurm -- {Figure().path(paper, 'pdf', figure='fig_hero')}" in page
    assert page.count("--<sup>∗</sup>") >= 100
    assert "Not measured yet" in page


def test_states_come_with_the_end_of_their_logs(page: str) -> None:
    order = [page.index(f'<details class="run {state}"') for state in STATES]
    assert order == sorted(order)
    assert "rtm: it &lt;diverged&gt; &amp; stopped" in page
    assert page.count("step 1\n") == 14
    assert "2h0m left" in page
    assert "job 4711" in page


def test_a_number_without_a_receipt_is_named(page: str, paper: Config) -> None:
    assert f"This number has no chain: {paper.root}/evaluate/cifar10_imle_mlp/paper/seed0 has no receipt" in page


def test_differences_are_those_of_the_numbers(paper: Config) -> None:
    sheet = build(paper, "tab_cifar10")
    cells = {(cell.row, cell.column): cell for cell in sheet.cells}

    def off(row: str, column: str) -> tuple[str, str, str] | None:
        gap = difference(cells[row, column])
        return (gap.text, gap.percent, gap.verdict) if gap else None

    assert off("cifar10_imle_mlp", "fid") == ("+0.11", "+1.9%", "worse")  # 5.8 here, 5.69 in the paper
    assert off("cifar10_imle_rtm", "fid") == ("−0.07", "−1.8%", "better")  # 3.9 here, 3.97 in the paper
    assert off("cifar10_imle_mlp", "precision") == ("+0.047", "+5.5%", "better")
    assert off("cifar10_imle_mlp", "recall") == ("= paper", "", "same")
    assert off("cifar10_imle_mlp", "time_ms") == ("−5.4", "−84.4%", "")  # the paper's time is from another machine
    assert off("cifar10_stylegan_xl", "fid") is None


def test_stand_ins_are_not_compared_with_the_paper(tmp_path: Path) -> None:
    config = SMOKE.at(tmp_path)
    fake_results.write_results(config, "cifar10_imle_rtm", {"paper": {"fid": 5000.0}})
    page = write_page(config, []).read_text("utf-8")
    assert "small stand-ins for data and models" in page
    assert "Paper against ours" not in page
    assert "paper 3.97" not in page


def test_text_is_never_markup() -> None:
    assert str(rich("a < b & $H=16$, `rm <x>`\nend")) == (
        "a &lt; b &amp; <i>H</i> = 16, <code>rm &lt;x&gt;</code><br>end"
    )


def test_an_empty_tree_gives_a_page_without_empty_sections(tmp_path: Path) -> None:
    for config in (PAPER, DEMO, SMOKE):
        page = write_page(config.at(tmp_path), []).read_text("utf-8")
        Checked(page)
        sections = set(re.findall(r'<section id="(\w+)">', page))
        assert sections - {"against"} == {"results", "tables", "figures", "lineage"}
        assert sections <= set(re.findall(r'<a href="#(\w+)">', page))
        assert "Nothing is measured yet." in page


def test_it_opens_with_the_result_and_the_pictures(page: str) -> None:
    """With one seed each, the difference has no interval. A running training shows its newest samples."""
    first, *_ = re.findall(r'<p class="result">(.*?)</p>', page)
    assert first.startswith("On CIFAR-10, RS-IMLE + RTM")
    assert first.endswith("has FID 3.90 and RS-IMLE baseline 5.80: a difference of −1.90. One seed gives no interval.")
    order = ['class="result"', 'alt="Samples of panda_imle_rtm after 100 steps"', 'id="tables"', 'class="facts"']
    assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
    assert "runs/panda/grid_000000100.png" in page
    assert "grid_000000050.png" not in page


def test_an_experiment_in_no_table_shows_its_metrics(tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    fake_results.write_results(config, "digits_rtm", {"digits": {"fid": 123.0}}, spread=0.5)
    assert "Other experiments" not in write_page(config, []).read_text("utf-8")
    untabled = replace(config, scale=DEMO.scale.model_copy(update={"tables": ()}))
    page = write_page(untabled, []).read_text("utf-8")
    Checked(page)
    shown = page[page.index('<section id="outside">') :]
    assert "digits_rtm, digits" in shown
    assert re.search(r'href="#chain-digits_rtm-digits".*?>123<', shown, re.S)


def test_the_same_again_is_the_same_page(tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    fake_results.write_curves(config, "digits_rtm")
    runs = [replace(run("cifar10_imle_rtm", "done"), experiment="digits_rtm")]
    first = write_page(config, runs).read_bytes()
    assert write_page(config, runs).read_bytes() == first
    assert b"data:image/svg+xml" in first


# in a browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(paper: Config) -> str:
    return Report().path(paper, "page").as_uri()


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_every_screen(chromium: Browser, address: str, width: int, dark: bool) -> None:
    with chromium.open(address, width, dark=dark) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("[...document.querySelectorAll('.scroll')].every(box => box.clientWidth <= innerWidth)")
        dress = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", dress))) < 60) is dark
        assert tab.evaluate("[...document.images].every(image => image.complete && image.naturalWidth)")
        assert not tab.seen("Runtime.exceptionThrown")
        assert not tab.seen("Log.entryAdded")
        asked = [event["request"]["url"][:5] for event in tab.seen("Network.requestWillBeSent")]
        assert set(asked) <= {"file:", "data:"}


def test_tables_with_deviations_fit_a_desk(chromium: Browser, tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    for name in DEMO.experiments:
        fake_results.write_results(config, name, {"digits": {"fid": 1000.0, "is": 10.0}}, spread=0.5)
    with chromium.open(write_page(config, []).as_uri(), 1280) as tab:
        assert tab.evaluate("document.querySelectorAll('.scroll .spread').length") > 30
        assert tab.evaluate(
            "[...document.querySelectorAll('.scroll')].every(box => box.scrollWidth <= box.clientWidth)"
        )


@pytest.mark.parametrize("width", [1280, 390])
def test_a_picture_is_larger_when_it_is_enlarged(chromium: Browser, address: str, width: int) -> None:
    with chromium.open(address, width) as tab:
        size = "Math.round(document.querySelector('{} img').getBoundingClientRect().width)"
        before = tab.evaluate(size.format("figure"))
        tab.evaluate("document.querySelector('figure img').click()")
        assert tab.evaluate(size.format("dialog")) > before
        assert tab.evaluate("dialog.scrollWidth <= dialog.clientWidth")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        inside = "(box => box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight)"
        assert tab.evaluate(f"{inside}(document.querySelector('dialog img').getBoundingClientRect())")
        whole = tab.evaluate(size.format("dialog"))
        tab.evaluate("document.querySelector('dialog img').click()")
        assert tab.evaluate(size.format("dialog")) >= 1.1 * whole  # it is enlarged, and every edge can be reached
        tab.evaluate("document.getElementById('dialog-body').scrollTo(9e9, 9e9)")
        edges = "(a, b) => a.right <= b.right + 1 && a.bottom <= b.bottom + 1"
        boxes = "['dialog img', '#dialog-body'].map(name => document.querySelector(name).getBoundingClientRect())"
        assert tab.evaluate(f"({edges})(...{boxes})")


def test_lineage_is_a_click_or_a_key_away(chromium: Browser, address: str) -> None:
    with chromium.open(address, 1280) as tab:
        cell = "document.querySelector('#tab_cifar10 td.published a')"
        tab.evaluate(f"{cell}.focus()")
        tab.press("Enter")
        assert tab.evaluate("dialog.open")
        assert "StyleGAN2" in tab.evaluate("document.getElementById('dialog-title').textContent")
        assert "Karras" in tab.evaluate("dialog.textContent")
        tab.press("Escape")
        assert not tab.evaluate("dialog.open")
        assert tab.evaluate(f"document.activeElement === {cell}")


def test_numbers_look_as_if_they_could_be_clicked(chromium: Browser, address: str) -> None:
    with chromium.open(address, 1280) as tab:
        style = "getComputedStyle(document.querySelector('#tab_cifar10 td.measured a {}')).{}"
        assert tab.evaluate(style.format("span", "borderBottomStyle")) == "dotted"
        assert tab.evaluate(style.format("", "cursor")) == "pointer"
        assert tab.evaluate("document.querySelector('figure').getBoundingClientRect().bottom < 2 * innerHeight")


def test_colours_can_be_chosen_and_stay(chromium: Browser, address: str) -> None:
    with chromium.open(address, 1280) as tab:
        tab.evaluate("theme.click()")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.go(address)
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.evaluate("theme.click()")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 251)"


def test_without_scripts_everything_is_there(chromium: Browser, address: str) -> None:
    with chromium.open(address, 390, script=False) as tab:
        root = tab.call("DOM.getDocument", depth=1)["root"]["nodeId"]
        for part, number in {"table": TABLES, "figure": 2, "figure img": 2}.items():
            found = tab.call("DOM.querySelectorAll", nodeId=root, selector=f"main {part}")["nodeIds"]
            assert len(found) == number
            folded = tab.call("DOM.querySelectorAll", nodeId=root, selector=f"main details {part}")["nodeIds"]
            assert len(folded) < len(found)
            for node in set(found) - set(folded):
                content = tab.call("DOM.getBoxModel", nodeId=node)["model"]
                assert content["width"]
                assert content["height"]
        assert tab.call("Page.getLayoutMetrics")["cssContentSize"]["width"] == 390


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_static_server_will_do(chromium: Browser, paper: Config) -> None:
    with served(Report().path(paper, "page").parent) as host, chromium.open(f"{host}/index.html", 1280) as tab:
        assert tab.evaluate("document.querySelectorAll('table').length") == TABLES
        asked = [event["request"]["url"] for event in tab.seen("Network.requestWillBeSent")]
        assert [url for url in asked if not url.startswith("data:")] == [f"{host}/index.html"]


def test_every_cell_can_be_reached_and_read(chromium: Browser, address: str) -> None:
    """Text has enough contrast (4.5 : 1) in light and dark colours; links can be focused."""
    contrast = """(() => {
      const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
      const ground = light(getComputedStyle(document.body).backgroundColor);
      return [...document.querySelectorAll("td a, .notes, .caption, .off, nav a, .state, figcaption")]
        .map((part) => light(getComputedStyle(part).color))
        .reduce((least, own) => Math.min(least, (Math.max(own, ground) + .05) / (Math.min(own, ground) + .05)), 99);
    })()"""
    for dark in (False, True):
        with chromium.open(address, 1280, dark=dark) as tab:
            assert tab.evaluate(contrast) >= 4.5
            assert tab.evaluate("[...document.querySelectorAll('td a, figure img')].every(part => part.tabIndex === 0)")
