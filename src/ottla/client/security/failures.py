"""Errors for a peer that speaks TLS, HTTP or plain text where another protocol was expected."""

from __future__ import annotations

import ssl

from ottla.errors import ErrorCode, TlsError

_TLS_ALERT = b"\x15\x03"
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = b"HTTP"

# Causes that OpenSSL's own reasons do not name.
_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "the broker does not speak TLS on this port: set security.protocol "
    "to PLAINTEXT or SASL_PLAINTEXT, or use its SSL port",
    "UNSUPPORTED_PROTOCOL": "the broker speaks no version of TLS of ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the broker speaks no version of TLS of ssl.enabled.protocols",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a certificate of the client: "
    "give ssl.keystore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust the issuer of the client's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the broker wants a certificate of the client, or refuses the "
    "one that it got: see ssl.keystore.location",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client's certificate has expired: replace the one of "
    "ssl.keystore.location",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the client's certificate was revoked: replace the one of "
    "ssl.keystore.location",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept the client's certificate: see "
    "ssl.keystore.location",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the two sides have no cipher suite in common, or the broker "
    "wants a certificate of the client",
}


def not_kafka(start: bytes) -> str | None:
    """Why the first four bytes cannot begin an answer of a Kafka broker; None if they can."""
    if start == _HTTP:
        return "it speaks HTTP and not Kafka: use the port of Kafka's protocol"
    if start[0] & 0x80:
        return "it does not speak Kafka"
    return None


def is_tls(start: bytes) -> bool:
    """Whether the first bytes of an answer are those of TLS."""
    return start.startswith((_TLS_ALERT, _TLS_HANDSHAKE))


def tls_expected(broker: str) -> TlsError:
    """The error of a client without TLS whose first request was answered with TLS."""
    why = "the broker expects TLS on this port: set security.protocol to SSL or SASL_SSL, or use another port"
    return TlsError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{why}.", {"broker": broker})


def tls_not_spoken(broker: str) -> TlsError:
    """The error of a client with TLS whose broker answers without it."""
    why = _TLS_REASONS["WRONG_VERSION_NUMBER"]
    return TlsError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{why}.", {"broker": broker})


def tls_failure(error: ssl.SSLError, broker: str) -> TlsError:
    """The error for the caller; it is not retriable."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = (
            f"the broker's certificate is not accepted: {error.verify_message} "
            "(see ssl.truststore.location and ssl.endpoint.identification.algorithm)"
        )
    else:
        reason = getattr(error, "reason", None) or str(error)
        why = _TLS_REASONS.get(reason, reason)
    return TlsError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{why}.", {"broker": broker})
