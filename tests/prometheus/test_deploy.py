"""The dashboard, the alerts and the KEDA example use only metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import mqredis
from mqredis.prometheus import Meter, render
from mqredis.prometheus.text import RENAMED, render_text
from mqredis.worker.metrics import worker_metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = sorted(DEPLOY.iterdir())


@pytest.fixture
def names() -> dict[str, str]:
    """Present names and types of all exported metrics. The files use no former names."""
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect("memory://deploy", settings=settings) as qm:
        text = render(qm) + Meter().render() + render_text(worker_metrics([]))
    found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    return {name: kind for name, kind in found.items() if name not in RENAMED}


def used(path: Path) -> set[str]:
    return set(re.findall(r"mqredis_[a-z_]+", path.read_text()))


def test_each_deploy_file_is_tested():
    assert [path.name for path in FILES] == ["grafana.json", "keda.yaml", "prometheus-rules.yaml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_metric_in_the_files_exists(path, names):
    served = set(names)
    served |= {f"{name}_bucket" for name, kind in names.items() if kind == "histogram"}
    assert used(path)
    assert used(path) <= served


def test_dashboard_shows_every_metric(names):
    shown = used(DEPLOY / "grafana.json")
    assert {name for name, kind in names.items() if f"{name}_bucket" not in shown} <= shown
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    panels: list[dict[str, Any]] = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"]
        for target in panel["targets"]:
            assert target["expr"].count("(") == target["expr"].count(")")


def test_page_has_every_metric(names):
    words = set(re.findall(r"`([a-z_]+)`", (DEPLOY.parent / "docs" / "metrics.md").read_text()))
    ends = tuple(word for word in words if word.startswith("_"))  # "`mqredis_manager_messages`, `_bytes`"
    assert {name for name in names if name not in words and not name.endswith(ends)} == set()


def test_counters_are_shown_as_rates(names):
    for path in FILES:
        for name in used(path):
            if names.get(name) == "counter":
                spoken = re.findall(rf"(\w+)\({name}", path.read_text())
                assert spoken, name
                assert set(spoken) <= {"rate", "increase"}, (path.name, name)


def test_selected_labels_exist():
    """Labels used in the files are labels of their metric."""
    settings = mqredis.Settings(allow_volatile=True)
    with mqredis.connect("memory://deploy-labels", settings=settings) as qm:
        qm.create_queue("q")
        text = render(qm)
    for path in FILES:
        for name, inner in re.findall(r"(mqredis_(?:queue|manager)_[a-z_]+)\{([^}]*)\}", path.read_text()):
            for label in re.findall(r"(\w+)=", inner.replace("\\", "")):
                assert re.search(rf'^{name}\{{[^}}]*{label}="', text, re.MULTILINE), (path.name, name, label)


def test_keda_and_rule_files_have_the_required_fields():
    keda = yaml.safe_load((DEPLOY / "keda.yaml").read_text())
    assert (keda["apiVersion"], keda["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    for trigger in keda["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert {"serverAddress", "query", "threshold"} <= trigger["metadata"].keys()
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]
    assert all({"alert", "expr", "annotations"} <= rule.keys() for rule in group["rules"])
