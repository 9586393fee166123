"""Each client with TLS: a record there and back, and what the client says when it does not get in."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
from tests.clients.java.agent import Agent
from tests.clients.java.driver import read, send
from tests.clients.messages import Message

import ottla

SECONDS = 15
# How long a client may try to get in where it cannot.
REFUSED_MS = 700
NOTHING = "nothing"


class TlsClient(ABC):
    """A client that trusts a CA, and may have a certificate of its own: NAME.pem, with NAME.crt and NAME.key."""

    def __init__(self, address: str, ca: Path | None, certificate: Path | None = None) -> None:
        self.address = address
        self.ca = ca
        self.certificate = certificate

    @property
    def protocol(self) -> str:
        return "PLAINTEXT" if self.ca is None else "SSL"

    @abstractmethod
    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        """Sends a record to partition 0 of an empty topic, and reads it."""

    @abstractmethod
    def failure(self) -> str:
        """What the client says when it cannot connect."""


class Confluent(TlsClient):
    """confluent-kafka."""

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {
            "bootstrap.servers": self.address,
            "security.protocol": self.protocol,
            "log_level": 0,
        }
        if self.ca is not None:
            options["ssl.ca.location"] = str(self.ca)
        if self.certificate is not None:
            options["ssl.certificate.location"] = str(self.certificate)
            options["ssl.key.location"] = str(self.certificate.with_suffix(".key"))
        return options

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        producer = confluent_kafka.Producer(self._options())
        producer.produce(topic, value, partition=0)
        assert producer.flush(SECONDS) == 0
        consumer = confluent_kafka.Consumer(self._options() | {"group.id": "g"})
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            message = consumer.poll(SECONDS)
            assert message is not None
            found: bytes | None = message.value()
            return found
        finally:
            consumer.close()

    def failure(self) -> str:
        errors: list[str] = []
        options = self._options() | {"error_cb": lambda error: errors.append(error.str())}
        client = confluent_kafka.Producer(options)
        for _ in range(SECONDS * 10):
            client.poll(0.1)
            if errors:
                return errors[0]
        return NOTHING


class KafkaPython(TlsClient):
    """kafka-python."""

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {
            "bootstrap_servers": self.address,
            "security_protocol": self.protocol,
        }
        if self.ca is not None:
            options["ssl_cafile"] = str(self.ca)
        if self.certificate is not None:
            options["ssl_certfile"] = str(self.certificate)
        return options

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        producer = kafka.KafkaProducer(**self._options())
        producer.send(topic, value, partition=0).get(SECONDS)
        producer.close()
        consumer = kafka.KafkaConsumer(**self._options())
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek(kafka.TopicPartition(topic, 0), 0)
        try:
            found: bytes = next(consumer).value
            return found
        finally:
            consumer.close()

    def failure(self) -> str:
        try:
            kafka.KafkaConsumer(**self._options(), bootstrap_timeout_ms=REFUSED_MS).close()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            # It forgets sockets whose handshake has failed, and Python would warn of them in another test.
            for each in gc.get_objects():
                if type(each) is ssl.SSLSocket:
                    each.close()
        return NOTHING


class AioKafka(TlsClient):
    """aiokafka."""

    def _options(self) -> dict[str, object]:
        options: dict[str, object] = {
            "bootstrap_servers": self.address,
            "security_protocol": self.protocol,
        }
        if self.ca is not None:
            context = ssl.create_default_context(cafile=str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(self.certificate)
            options["ssl_context"] = context
        return options

    async def _there_and_back(self, topic: str, value: bytes) -> bytes | None:
        async with aiokafka.AIOKafkaProducer(**self._options()) as producer:
            await producer.send_and_wait(topic, value, partition=0)
        consumer = aiokafka.AIOKafkaConsumer(**self._options())
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found: bytes | None = (await consumer.getone()).value
            return found
        finally:
            await consumer.stop()

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        return asyncio.run(self._there_and_back(topic, value))

    async def _failure(self) -> str:
        producer = aiokafka.AIOKafkaProducer(**self._options(), request_timeout_ms=REFUSED_MS)
        try:
            await producer.start()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            await producer.stop()
        return NOTHING

    def failure(self) -> str:
        return asyncio.run(self._failure())


class Kcat(TlsClient):
    """kcat, a process for each call."""

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        options = {"security.protocol": self.protocol}
        if self.ca is not None:
            options["ssl.ca.location"] = str(self.ca)
        if self.certificate is not None:
            options["ssl.certificate.location"] = str(self.certificate)
            options["ssl.key.location"] = str(self.certificate.with_suffix(".key"))
        words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
        return subprocess.run(
            ["kcat", "-b", self.address, *words, *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        sent = self._run("-P", "-t", topic, "-p", "0", stdin=value)
        assert sent.returncode == 0, sent.stderr
        return self._run("-C", "-t", topic, "-p", "0", "-o", "0", "-c", "1", "-q").stdout.rstrip()

    def failure(self) -> str:
        asked = self._run("-L", "-m", "1")
        return NOTHING if asked.returncode == 0 else asked.stderr.decode()


class Ottlas(TlsClient):
    """Our own."""

    def _options(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": self.protocol,
            "ssl.truststore.location": None if self.ca is None else str(self.ca),
            "ssl.keystore.location": None if self.certificate is None else str(self.certificate),
        }

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        with ottla.Producer(self._options()) as producer:
            producer.send(topic, value, partition=0).result(SECONDS)
        with ottla.Consumer(self._options()) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0)])
            consumer.seek(ottla.TopicPartition(topic, 0), 0)
            (record,) = consumer.poll(SECONDS)
            found: bytes | None = record.value
            return found

    def failure(self) -> str:
        limits = {"max.block.ms": REFUSED_MS, "delivery.timeout.ms": 60_000}
        with ottla.Producer(self._options() | limits) as producer:
            try:
                producer.send("t", b"").result(SECONDS)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return NOTHING


class Java(TlsClient):
    """Apache Kafka's own."""

    agent: Agent

    def _words(self, **options: object) -> list[str]:
        words = [f"bootstrap.servers={self.address}", f"security.protocol={self.protocol}"]
        if self.ca is not None:
            words += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.ca}"]
        if self.certificate is not None:
            words += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.certificate}"]
        return words + [f"{name.replace('_', '.')}={value}" for name, value in options.items()]

    def there_and_back(self, topic: str, value: bytes) -> bytes | None:
        connection = self.agent.connect()
        connection.call("producer", *self._words())
        assert send(connection, topic, [Message(value=value)], 0) == [0]
        connection.close()
        connection = self.agent.connect()
        connection.call("consumer", *self._words())
        connection.call("assign", topic, 0, 0)
        (received,) = read(connection, 1)
        connection.close()
        return received.value

    def failure(self) -> str:
        connection = self.agent.connect()
        connection.call("producer", *self._words(max_block_ms=REFUSED_MS))
        try:
            send(connection, "t", [Message(value=b"")], 0)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        return NOTHING
