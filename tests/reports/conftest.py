"""Results for the tests of tables and figures. A test may render anything from them but must not change them."""

from collections import defaultdict

import pytest
from support import fake_results
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.reports.tables import render_table


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The paper's numbers, as if they were measured here, and the paper's tables."""
    config = PAPER.at(tmp_path_factory.mktemp("reproduced"))
    sections: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for table in config.tables.values():
        for part in table.cells:
            values = config.params.published[part.paper].values if part.paper else {}
            if part.experiment and part.metric in values:
                sections[part.experiment][str(part.section)][part.metric] = values[part.metric]
    for experiment, measured in sections.items():
        fake_results.write_results(config, experiment, measured)
    for name in config.tables:
        render_table(config, name)
    return config


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The demo's galleries, curves and metrics."""
    config = DEMO.at(tmp_path_factory.mktemp("demo"))
    for number, name in enumerate(config.experiments):
        sections = {"digits": {"fid": 100.0 - number, "precision": 0.8}, "latency": {"mapper_parameters": 33280.0}}
        fake_results.write_gallery(config, name)
        fake_results.write_curves(config, name)
        fake_results.write_results(config, name, sections, spread=0.1)
    return config
