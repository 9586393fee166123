"""What an installed Ottla has to do at least; runs in the environment that it judges, in which only Ottla is installed.

fresh/bin/python tests/packaging/smoke.py
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile

import ottla

SECONDS = 60
KERNELS = (
    "records._kernel",
    "records._client_kernel",
    "records._offset_kernel",
    "wire._columns_kernel",
    "wire._produce_kernel",
    "wire._group_kernel",
)


def check_what_runs() -> None:
    """The package of this environment, not a source tree, and with compiled kernels."""
    assert ottla.__file__.startswith(sys.prefix), ottla.__file__
    for name in KERNELS:
        kernel = importlib.import_module(f"ottla.{name}")
        assert str(kernel.__file__).endswith((".so", ".pyd")), kernel.__file__


def check_records_over_a_restart() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ottla.Broker(data_dir=folder) as broker:
            servers = broker.bootstrap_servers
            with ottla.Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
                sent = [producer.send("orders", value=b"%d" % number) for number in range(100)]
                for each in sent:
                    each.result(timeout=SECONDS)
        with ottla.Broker(data_dir=folder) as broker:
            group = {"group.id": "kitchen", "auto.offset.reset": "earliest"}
            settings = {"bootstrap.servers": broker.bootstrap_servers, **group}
            with ottla.Consumer(settings) as consumer:
                consumer.subscribe(["orders"])
                found: list[bytes | None] = []
                while len(found) < 100:
                    records = list(consumer.poll(SECONDS))
                    assert records, f"only {len(found)} of 100 records came"
                    found += [record.value for record in records]
                consumer.commit()
    assert sorted(found, key=lambda value: int(value or b"")) == [b"%d" % n for n in range(100)]


def run(*arguments: str) -> str:
    """What a command of this environment prints."""
    command = [os.path.join(os.path.dirname(sys.executable), arguments[0]), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check_command() -> None:
    assert "serve" in run("ottla", "--help")
    assert ottla.__version__ in run("ottla", "--version")
    with ottla.Broker() as broker:
        run("ottla", "topics", "create", "orders", "-b", broker.bootstrap_servers)
        assert "orders" in run("ottla", "topics", "list", "-b", broker.bootstrap_servers)


def main() -> None:
    check_what_runs()
    check_records_over_a_restart()
    check_command()
    print(f"Ottla {ottla.__version__} works in {sys.prefix}")


if __name__ == "__main__":
    main()
