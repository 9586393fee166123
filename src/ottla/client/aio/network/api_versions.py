"""Which API versions a broker speaks: the first request on every connection (KIP-35, KIP-511)."""

from __future__ import annotations

import struct

from ottla.client.aio.network.connection import Connection
from ottla.client.model import VersionRange
from ottla.errors import ErrorCode, exception_for
from ottla.version import VERSION
from ottla.wire.declare import info_of
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.response_decoders import decoder_of

SOFTWARE_NAME = "ottla"
_ERROR_CODE = struct.Struct(">h")
_ERROR_CODE_AT = 4


async def ask_versions(connection: Connection) -> ApiVersionsResponse:
    """Ask for the broker's API versions, in a version of ApiVersions that it knows."""
    version = info_of(ApiVersionsRequest).versions.last
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=VERSION
    )
    response = await _ask(connection, request, version)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # Brokers before Kafka 2.4 do not list the versions of ApiVersions that they support.
        spoken = _ranges(response).get(info_of(ApiVersionsRequest).api_key, VersionRange(0, 0))
        response = await _ask(connection, request, max(0, min(spoken.max_version, version - 1)))
    return _learn(connection, response)


async def ask_versions_before_sasl(connection: Connection) -> ApiVersionsResponse:
    """As `ask_versions`, but in version 0: before SASL a broker may take another one for a Kerberos token."""
    return _learn(connection, await _ask(connection, ApiVersionsRequest(), 0))


def _learn(connection: Connection, response: ApiVersionsResponse) -> ApiVersionsResponse:
    if response.error_code:
        raise exception_for(
            response.error_code, None, api="ApiVersions", broker=str(connection.endpoint)
        )
    connection.versions = _ranges(response)
    return response


async def _ask(
    connection: Connection, request: ApiVersionsRequest, version: int
) -> ApiVersionsResponse:
    def decode(frame: memoryview) -> ApiVersionsResponse:
        (error_code,) = _ERROR_CODE.unpack_from(frame, _ERROR_CODE_AT)
        # This error has the layout of version 0, whatever the version of the request.
        spoken = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
        response: ApiVersionsResponse = decoder_of(ApiVersionsRequest, spoken)(frame)
        return response

    response: ApiVersionsResponse = await connection.send_decoding(request, version, decode)
    return response


def _ranges(response: ApiVersionsResponse) -> dict[int, VersionRange]:
    return {
        each.api_key: VersionRange(each.min_version, each.max_version) for each in response.api_keys
    }
