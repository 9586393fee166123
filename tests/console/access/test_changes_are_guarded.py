"""Every change of the API: who only looks cannot make it, another site cannot, and a preview makes none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla
from ottla.admin import ConfigResource, NewTopic
from ottla.console.access.roles import Role
from ottla.console.api.all_routes import ALL_ROUTES

TOPIC: Final = "orders"
GROUP: Final = "billing"
OPEN_ID: Final = "checkout"
SUBJECT: Final = "orders-value"
LETTERS: Final = "orders.mailer.dlt"
TOKENS: Final = {role: f"{role}-token-of-thirty-two-characters" for role in ("viewer", "operator")}
SECONDS: Final = 20
CHOSEN: Final = {"chosen": {"places": [{"partition": 0, "offset": 0}]}}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "/api/topics": {"name": "more"},
    "/api/topics/{topic}/delete": {},
    "/api/topics/{topic}/partitions": {"total_count": 9},
    "/api/topics/{topic}/delete-records": {"partitions": [{"partition": 0, "before_offset": 2}]},
    "/api/topics/{topic}/configs": {"changes": [{"name": "retention.ms", "value": "60000"}]},
    "/api/topics/{topic}/records": {"value": {"text": "more"}, "partition": 0},
    "/api/group/reset-offsets": {"id": GROUP, "to": "earliest"},
    "/api/group/delete": {"id": GROUP},
    "/api/group/delete-offsets": {"id": GROUP, "topics": [TOPIC]},
    "/api/transaction/abort": {"transactional_id": OPEN_ID},
    "/api/transactions/hanging/abort": {"topic": TOPIC, "partition": 0, "start_offset": 3},
    "/api/dead-letters/replay": {"topic": LETTERS, **CHOSEN},
    "/api/dead-letters/drop": {"topic": LETTERS, **CHOSEN},
    "/api/dead-letters/changes/stop": {"id": 1},
    "/api/schemas/register": {"subject": SUBJECT, "text": '"string"'},
    "/api/schemas/delete": {"subject": SUBJECT},
    "/api/schemas/compatibility": {"subject": SUBJECT, "level": "NONE"},
    "/api/schemas/mode": {"subject": SUBJECT, "mode": "READONLY"},
    "/api/broker/configs": {"id": 1, "changes": [{"name": "log.retention.ms", "value": "60000"}]},
}
"""A body for each change, which would succeed or at least be understood."""
CHANGES: Final = [
    route for route in ALL_ROUTES if route.method != "GET" and route.role > Role.VIEWER
]


class Consoles(NamedTuple):
    """Consoles of one cluster: with tokens, without a login, and one that only shows."""

    servers: str
    registry_url: str
    with_tokens: str
    without_login: str
    read_only: str


@pytest.fixture(scope="module")
def consoles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consoles]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    tokens.write_text("".join(f"{role} {token} {role}\n" for role, token in TOKENS.items()))
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(LASTING))
        servers = broker.bootstrap_servers
        registry = stack.enter_context(ottla.SchemaRegistry(bootstrap_servers=servers))
        fill(stack, servers, registry.url)
        yield Consoles(
            servers,
            registry.url,
            *(
                stack.enter_context(serving(servers, registry_url=registry.url, **settings)).url
                for settings in ({"token_file": Path(tokens)}, {}, {"is_read_only": True})
            ),
        )


def fill(stack: ExitStack, servers: str, registry_url: str) -> None:
    """A topic with records, of which a group has read two, an open transaction, a letter and a schema."""
    admin = stack.enter_context(ottla.Admin(bootstrap_servers=servers))
    admin.create_topics(NewTopic(name, num_partitions=1) for name in (TOPIC, LETTERS))
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for topic in (TOPIC, TOPIC, TOPIC, LETTERS):
            producer.send(topic, b"{}", partition=0).result(SECONDS)
    admin.alter_consumer_group_offsets(GROUP, {(TOPIC, 0): 2})
    writer = stack.enter_context(
        ottla.Producer(bootstrap_servers=servers, transactional_id=OPEN_ID)
    )
    writer.init_transactions()
    writer.begin_transaction()
    stack.callback(writer.abort_transaction)
    writer.send(TOPIC, b"open", partition=0).result(SECONDS)
    answer = httpx.post(
        f"{registry_url}/subjects/{SUBJECT}/versions", json={"schema": '"int"'}, trust_env=False
    )
    assert answer.status_code == 200, answer.text


def state_of(consoles: Consoles) -> dict[str, object]:
    """What the changes would change."""

    def registry(path: str) -> object:
        return httpx.get(consoles.registry_url + path, trust_env=False).json()

    with ottla.Admin(bootstrap_servers=consoles.servers) as admin:
        described = admin.describe_topics([TOPIC, LETTERS])
        configs = admin.describe_configs([ConfigResource.topic(TOPIC), ConfigResource.broker(1)])
        places = [(TOPIC, 0), (LETTERS, 0)]
        return {
            "topics": sorted(map(str, admin.list_topics())),
            "partitions": str(described),
            "configs": str(configs),
            "starts": str(
                admin.list_offsets(dict.fromkeys(places, ottla.admin.OffsetSpec.EARLIEST))
            ),
            "ends": str(admin.list_offsets(dict.fromkeys(places, ottla.admin.OffsetSpec.LATEST))),
            "committed": str(admin.list_consumer_group_offsets(GROUP)),
            "transactions": str(admin.list_transactions()),
            "subjects": registry("/subjects"),
            "versions": registry(f"/subjects/{SUBJECT}/versions"),
            "config": registry(f"/config/{SUBJECT}"),
            "mode": registry(f"/mode/{SUBJECT}"),
        }


def change(url: str, path: str, *, preview: bool, **headers: str) -> httpx.Response:
    body = BODIES[path] | ({} if path.endswith("/stop") else {"preview": preview})
    return httpx.post(
        url + path.replace("{topic}", TOPIC),
        json=body,
        headers=headers,
        trust_env=False,
        timeout=SECONDS,
    )


def token_of(url: str) -> str:
    """What every change of a session has to bring."""
    return str(httpx.get(f"{url}/api/session", trust_env=False).json()["token"])


def test_the_table_has_every_change() -> None:
    assert {route.path for route in CHANGES} == set(BODIES)


def test_who_only_looks_makes_no_change(consoles: Consoles) -> None:
    """A viewer, an operator where an admin is needed, and everybody where a console is read-only."""
    before = state_of(consoles)
    read_only = {"x-csrf-token": token_of(consoles.read_only)}
    for route in CHANGES:
        answer = change(consoles.read_only, route.path, preview=False, **read_only)
        assert (answer.status_code, "read-only" in answer.text) == (403, True), route.path
        for role, token in TOKENS.items():
            if role == route.role.title:
                continue
            answer = change(
                consoles.with_tokens, route.path, preview=False, authorization=f"Bearer {token}"
            )
            if role == "viewer" or route.role is Role.ADMIN:
                needed = f"needs the role {route.role.title}"
                assert (answer.status_code, needed in answer.text) == (403, True), route.path
    assert state_of(consoles) == before


def test_another_site_makes_no_change(consoles: Consoles) -> None:
    before = state_of(consoles)
    url = consoles.without_login
    good = token_of(url)
    for path in BODIES:
        for status, headers in (
            (403, {}),
            (403, {"x-csrf-token": "x" * len(good)}),
            (403, {"x-csrf-token": token_of(consoles.read_only)}),
            (403, {"x-csrf-token": good, "sec-fetch-site": "cross-site"}),
            (403, {"x-csrf-token": good, "sec-fetch-site": "same-site"}),
            (403, {"x-csrf-token": good, "origin": "http://evil.example"}),
            (403, {"x-csrf-token": good, "origin": "null"}),
            (421, {"x-csrf-token": good, "host": "evil.example"}),
            (415, {"x-csrf-token": good, "content-type": "text/plain"}),
        ):
            answer = change(url, path, preview=False, **headers)
            assert answer.status_code == status, (path, headers, answer.text)
        answer = change(consoles.with_tokens, path, preview=False)
        assert answer.status_code == 401, (path, answer.text)
    answer = change(consoles.with_tokens, path, preview=False, authorization="Bearer wrong")
    assert answer.status_code == 401, answer.text
    assert state_of(consoles) == before


def test_a_preview_changes_nothing(consoles: Consoles) -> None:
    before = state_of(consoles)
    viewer = {"authorization": f"Bearer {TOKENS['viewer']}"}
    shown = 0
    for route in CHANGES:
        if route.is_preview is None:
            continue
        answer = change(consoles.with_tokens, route.path, preview=True, **viewer)
        assert answer.status_code in (200, 400, 404, 409), (route.path, answer.text)
        shown += answer.status_code == 200
    assert shown >= len(BODIES) - 4, "most of them show a plan"
    assert state_of(consoles) == before
