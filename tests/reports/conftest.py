"""Results for the tests of tables and figures. A test may render anything from them but must not change them."""

import pytest
from support import fake_results
from support.reports import DEMO, PAPER

from rtm.core.layout import Layout
from rtm.reports.tables import render_table


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The paper's numbers, as if they were measured here, and the paper's tables."""
    root = tmp_path_factory.mktemp("reproduced")
    layout = Layout(root, root)
    sections: dict[str, dict[str, dict[str, float]]] = {}
    for table in PAPER.tables.values():
        for part in table.cells:
            if part.experiment and part.paper:
                values = PAPER.params.published[part.paper].values
                section = sections.setdefault(part.experiment, {}).setdefault(str(part.section), {})
                if part.metric in values:
                    section[part.metric] = values[part.metric]
    for experiment, measured in sections.items():
        fake_results.write_results(PAPER, layout, experiment, measured)
    for name in PAPER.tables:
        render_table(PAPER, layout, name)
    return layout


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The demo's galleries, curves and metrics."""
    root = tmp_path_factory.mktemp("demo")
    layout = Layout(root, root)
    for number, name in enumerate(DEMO.experiments):
        sections = {"digits": {"fid": 100.0 - number, "precision": 0.8}, "latency": {"mapper_parameters": 33280.0}}
        fake_results.write_gallery(DEMO, layout, name)
        fake_results.write_curves(DEMO, layout, name)
        fake_results.write_results(DEMO, layout, name, sections, spread=0.1)
    return layout
