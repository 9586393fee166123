"""What a client needs to connect to a secured broker, in the words of each client library."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class ClientSettings:
    """How a client connects: the protocol, whom it trusts, and who it is."""

    protocol: str
    ca: Path | None = None
    certificate: Path | None = None
    """A PEM file with the client's key and certificate."""
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)

    def for_ottla(self) -> dict[str, str]:
        """For our clients, and for properties files of the command line."""
        found = {"security.protocol": self.protocol, **self._stores()}
        if self.mechanism is not None:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return found

    def for_java(self) -> dict[str, str]:
        """For Kafka's Java clients and tools; our clients read it too."""
        found = {"security.protocol": self.protocol, **self._stores()}
        if self.mechanism is not None:
            module = _PLAIN_MODULE if self.mechanism == "PLAIN" else _SCRAM_MODULE
            name, password = _quoted(self.username), _quoted(self.password)
            found["sasl.mechanism"] = self.mechanism
            found["sasl.jaas.config"] = f"{module} required username={name} password={password};"
        return found

    def for_librdkafka(self) -> dict[str, str]:
        """For confluent-kafka, kcat, and other clients on librdkafka."""
        found = {"security.protocol": self.protocol}
        if self.ca is not None:
            found["ssl.ca.location"] = str(self.ca)
        if self.certificate is not None:
            found["ssl.certificate.location"] = str(self.certificate)
            found["ssl.key.location"] = str(self.certificate)
        if self.mechanism is not None:
            found |= {
                "sasl.mechanisms": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return found

    def for_kafka_python(self) -> dict[str, str]:
        """Keyword arguments for kafka-python."""
        found = {"security_protocol": self.protocol}
        if self.ca is not None:
            found["ssl_cafile"] = str(self.ca)
        if self.certificate is not None:
            found["ssl_certfile"] = str(self.certificate)
            found["ssl_keyfile"] = str(self.certificate)
        return found | self._sasl_keywords()

    def for_aiokafka(self) -> dict[str, object]:
        """Keyword arguments for aiokafka."""
        found: dict[str, object] = {"security_protocol": self.protocol}
        if self.ca is not None:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate)
            found["ssl_context"] = context
        return found | self._sasl_keywords()

    def _stores(self) -> dict[str, str]:
        found = {}
        for store, file in (("truststore", self.ca), ("keystore", self.certificate)):
            if file is not None:
                found[f"ssl.{store}.type"] = "PEM"
                found[f"ssl.{store}.location"] = str(file)
        return found

    def _sasl_keywords(self) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }


def _quoted(text: str) -> str:
    """A value of sasl.jaas.config."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
