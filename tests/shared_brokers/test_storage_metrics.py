"""What Prometheus is told of a shared storage, and what the dashboard asks."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from tests.shared_brokers.broker_processes import make_storage

import ottla
from ottla.broker.metrics import broker_metrics, storage_metrics

DASHBOARD = Path(__file__).parents[2] / "packaging" / "grafana" / "ottla-storage.json"
_SUFFIXES = ("_bucket", "_sum", "_count")


def scraped(url: str) -> dict[str, float]:
    text = urllib.request.urlopen(url, timeout=10).read().decode()
    return {
        name: float(value)
        for name, value in (
            line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
        )
    }


def test_a_broker_on_a_storage_tells_what_its_engine_counts(storage_url: str) -> None:
    urls = make_storage(storage_url)
    with ottla.Broker(storage=urls.storage, metrics="127.0.0.1:0") as broker:
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"one").result(30)
        assert broker.metrics_url is not None
        found = scraped(broker.metrics_url)
    names = {name.partition("{")[0] for name in found}
    for metric in storage_metrics.ALL:
        assert names & {metric.name, f"{metric.name}_count"}, metric.name
    assert found['ottla_storage_commit_duration_seconds_count{lane="inline"}'] >= 1
    assert 0 < found["ottla_storage_lease_remaining_seconds"] <= 3


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    known = {metric.name: metric.kind for metric in broker_metrics.ALL}
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"\b(?:ottla|process)_\w+", target["expr"])
    }
    assert len(asked) > 15
    for name in asked:
        base = next((name.removesuffix(each) for each in _SUFFIXES if name.endswith(each)), name)
        assert known.get(base) == "histogram" or name in known, name
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
