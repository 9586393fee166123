"""A client that pushes metrics, one request at a time, and the page on which they appear."""

from __future__ import annotations

import urllib.request
from types import TracebackType
from typing import Self

from tests.broker.exposition_reader import Family, read

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.compression import Codec, compress
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.types import ZERO_UUID

CLIENT_METRICS = 16
SET, DELETE = 0, 1


def alter(
    connection: RawConnection,
    name: str,
    options: dict[str, str | None],
    validate_only: bool = False,
) -> tuple[ErrorCode, str | None]:
    """Sets options of a subscription, and removes those that are None."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name=name,
                configs=[
                    AlterableConfig(
                        name=option, config_operation=DELETE if value is None else SET, value=value
                    )
                    for option, value in options.items()
                ],
            )
        ],
        validate_only=validate_only,
    )
    (answer,) = connection.call(request, IncrementalAlterConfigsResponse, 1).responses
    return ErrorCode(answer.error_code), answer.error_message


def subscribe(address: str, name: str = "all", **options: str) -> None:
    """Subscribes to metrics; underscores in names of options are dots."""
    given: dict[str, str | None] = {"metrics": "*"}
    given |= {option.replace("_", "."): value for option, value in options.items()}
    with RawConnection(address) as connection:
        assert alter(connection, name, given) == (ErrorCode.NONE, None)


class PushingClient:
    """One client: its connection, its id, and its subscription."""

    def __init__(self, address: str, client_id: str | None = "till") -> None:
        self.connection = RawConnection(address)
        self.client_id = client_id
        self.instance_id = ZERO_UUID
        self.subscription_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def introduce(self, name: str, version: str) -> None:
        """Says which software the client is."""
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        self.connection.send(request, 4, self.client_id)
        assert self.connection.receive(ApiVersionsResponse, 4).error_code == ErrorCode.NONE

    def get(self) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        self.connection.send(request, 0, self.client_id)
        answer: GetTelemetrySubscriptionsResponse = self.connection.receive(
            GetTelemetrySubscriptionsResponse, 0
        )
        if answer.error_code == ErrorCode.NONE:
            self.instance_id = answer.client_instance_id
            self.subscription_id = answer.subscription_id
        return answer

    def push(
        self,
        data: bytes = b"",
        *,
        codec: int = Codec.NONE,
        terminating: bool = False,
        subscription_id: int | None = None,
    ) -> ErrorCode:
        """Pushes bytes as they are."""
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=data,
        )
        self.connection.send(request, 0, self.client_id)
        return ErrorCode(self.connection.receive(PushTelemetryResponse, 0).error_code)

    def push_compressed(self, data: bytes, codec: Codec = Codec.ZSTD) -> ErrorCode:
        return self.push(compress(codec, data, None), codec=codec)


def scrape(broker: ottla.Broker) -> dict[str, Family]:
    """The metrics page, read strictly."""
    with urllib.request.urlopen(broker.metrics_url, timeout=10) as answer:
        return read(answer.read().decode())


def samples(page: dict[str, Family], name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The samples of a metric by their labels, without node and client instance."""
    family = page.get(name)
    if family is None:
        return {}
    return {
        tuple(label for label in labels if label[0] not in ("node", "client_instance_id")): value
        for (_, labels), value in family.samples.items()
    }
