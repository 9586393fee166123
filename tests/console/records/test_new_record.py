"""Writing a record by the console's API: what is sent, and what is refused before anything is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.api_client import ApiClient
from tests.console.records.conftest import RecordCluster, RecordsApi
from tests.console.serving import serving


def text(written: str, form: str = "text") -> dict[str, str]:
    return {"text": written, "format": form}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"value": text("{", "json")}, "the value is not JSON"),
        ({"value": text("NaN", "json")}, "NaN is no number of JSON"),
        ({"key": text("0g", "hex")}, "the key is not hex"),
        ({"key": text("?", "base64")}, "the key is not base64"),
        ({"headers": [{"name": "h", "value": text("zz", "hex")}]}, "a header's value is not hex"),
        ({"headers": [{"name": "h"}] * 1001}, "1,000 headers at most"),
        ({"partition": 9}, "has no partition 9"),
        ({"timestamp_ms": -1}, "timestamp_ms is 0 or more"),
    ],
)
def test_what_makes_no_record_is_refused(
    cluster: RecordCluster, api: RecordsApi, record: dict[str, Any], reason: str
) -> None:
    topic = cluster.topic("refused", 2)
    for is_preview in (True, False):
        path = f"/api/topics/{topic}/records"
        status, said = api.refused("POST", path, **record, preview=is_preview)
        assert status == 400
        assert reason in said
    assert api.search(topic)[0] == []


def test_a_record_is_written_as_the_preview_said(cluster: RecordCluster, api: RecordsApi) -> None:
    topic = cluster.topic("written", 4)
    digits = "9" * 5_000
    record = {
        "key": text("o-1"),
        "value": text(f'{{"n": {digits}}}', "json"),
        "headers": [{"name": "trace", "value": text("00ff", "hex")}, {"name": "none"}],
        "timestamp_ms": 1_700_000_000_000,
    }
    path = f"/api/topics/{topic}/records"
    plan = api.post(path, **record)["plan"]
    assert api.search(topic)[0] == []
    done = api.post(path, **record, preview=False)["done"]
    assert done == {"partition": plan["partition"], "offset": 0, "timestamp_ms": 1_700_000_000_000}
    detail = api.record(topic, 0, done["partition"])
    assert (detail["key"]["text"], detail["value"]["format"]) == ("o-1", "json")
    assert digits in detail["value"]["text"]
    assert [(each["name"], each["value"]) for each in detail["headers"]] == [
        ("trace", "\x00\\xff"),
        ("none", None),
    ]
    rows, _ = api.search(topic, filter=["value.n >= 10"])
    assert len(rows) == 1, "numbers of any size are compared"


def test_internal_topics_are_left_alone(api: RecordsApi, cluster: RecordCluster) -> None:
    with cluster.transactional() as producer:
        producer.abort_transaction()
    path = "/api/topics/__transaction_state/records"
    status, said = api.refused("POST", path, value=text("x"))
    assert status == 400
    assert "is internal" in said


def test_a_read_only_console_shows_the_plan_and_writes_nothing(cluster: RecordCluster) -> None:
    topic = cluster.topic("read-only")
    with serving(cluster.servers, is_read_only=True) as console:
        api = ApiClient(console.url)
        path = f"/api/topics/{topic}/records"
        assert api.post(path, value=text("x"))["done"] is None
        assert api.refused("POST", path, value=text("x"), preview=False)[0] == 403
        api.close()
