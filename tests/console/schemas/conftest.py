"""A console with a schema registry: ours and, in a campaign, Apicurio's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest
from tests.console.api_client import SOON_SECONDS, ApiClient, looking
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.lasting import LASTING
from tests.schemas.registry.test_apicurio import running_apicurio
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

MEDIA_TYPE = {"content-type": "application/vnd.schemaregistry.v1+json"}


def record(name: str, *fields: str) -> str:
    """An Avro record of ints; those with `?` have a default."""
    made = [
        {"name": each.rstrip("?"), "type": "int", **({"default": 0} if "?" in each else {})}
        for each in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": made})


class Registry:
    """A registry, by its address, beside a broker."""

    def __init__(self, servers: str, url: str, *, is_apicurio: bool = False) -> None:
        self.servers = servers
        self.url = url
        # Apicurio does not say why a schema is incompatible, and calls a level that was taken away NONE.
        self.tells_reasons = not is_apicurio
        self.no_level = "NONE" if is_apicurio else None
        self._count = 0
        self._http = httpx.Client(base_url=url, headers=MEDIA_TYPE, timeout=30, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def name(self, prefix: str) -> str:
        """A name that no other test has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def topic(self, prefix: str) -> str:
        name = self.name(prefix)
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(name, num_partitions=1)])
        return name

    def ask(self, method: str, path: str, **body: object) -> object:
        answer = self._http.request(method, path, json=body or None)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def register(self, subject: str, text: str, type: str = "AVRO", **more: object) -> int:
        """By a stranger's request; its id."""
        self.ask("PUT", f"/config/{subject}", compatibility="BACKWARD")
        body = {"schema": text, "schemaType": type, **more}
        answer = self.ask("POST", f"/subjects/{subject}/versions", **body)
        assert isinstance(answer, dict)
        return int(answer["id"])


@pytest.fixture(
    scope="module", params=["ottla", pytest.param("apicurio", marks=pytest.mark.campaign)]
)
def registry(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    with ottla.Broker(LASTING) as broker:
        servers = broker.bootstrap_servers
        if request.param == "ottla":
            with (
                ottla.SchemaRegistry(bootstrap_servers=servers) as running,
                closing(Registry(servers, running.url)) as found,
            ):
                yield found
            return
        with (
            running_apicurio(tmp_path_factory) as url,
            closing(Registry(servers, url, is_apicurio=True)) as found,
        ):
            yield found


@contextmanager
def console_of(servers: str, **settings: Any) -> Iterator[ApiClient]:
    """The API of a console that is looked at, and whose cluster has answered."""
    with quick_polls(), serving(servers, **settings) as console, looking(console.url) as client:
        with httpx.Client(base_url=console.url, trust_env=False, timeout=30) as http:
            deadline = time.monotonic() + SOON_SECONDS
            while http.get("/api/topics").status_code != 200:
                in_time(deadline, "the console does not see its cluster")
                time.sleep(0.05)
        yield client


@pytest.fixture(scope="module")
def api(registry: Registry) -> Iterator[ApiClient]:
    """The API of a console with this registry."""
    with console_of(registry.servers, registry_url=registry.url) as client:
        yield client
