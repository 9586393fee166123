"""The same program on every kind of cluster that pip's Spark brings, and through spark-submit."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipeline_process import PipelineProcess, environment
from tests.spark.pipelines import records_of
from tests.spark.scenes import Scene
from tests.spark.sessions import needs_spark
from tests.waiting import in_time

import ottla
from ottla import Broker
from ottla.admin import NewTopic

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]

RUN_SECONDS = 400
HOST = "127.0.0.1"


def script(name: str) -> str:
    """One of pip's Spark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@pytest.fixture
def pipeline(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[PipelineProcess]:
    needs_spark()
    made = PipelineProcess(ottla_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.feed(300)
    yield made
    made.end()


def run(pipeline: PipelineProcess, *command: str, **variables: str) -> None:
    """Run a command to its end, and look at what came out."""
    done = subprocess.run(
        command,
        env=environment(OTTLA_BOOTSTRAP_SERVER=pipeline.servers, **variables),
        cwd=pipeline.folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert pipeline.values() == pipeline.expected()


def run_with_ottla(pipeline: PipelineProcess, master: str) -> None:
    ottla_command = [sys.executable, "-m", "ottla", "pipeline", "run", str(pipeline.file)]
    run(pipeline, *ottla_command, "--master", master, "--", *pipeline.arguments("available-now"))


@contextmanager
def process(
    log: Path, variables: dict[str, str], *command: str
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        started = subprocess.Popen(
            [script("spark-class"), *command],
            stdout=file,
            stderr=file,
            env=environment(**variables),
        )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(60)


def wait_for(log: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
        in_time(deadline, log.read_text(encoding="utf-8", errors="replace"))
        time.sleep(0.2)


@contextmanager
def standalone(
    folder: Path, hosts: Sequence[str] = (HOST, HOST), **variables: str
) -> Iterator[str]:
    """A master and a worker for each host; the address of the master."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    deploy = "org.apache.spark.deploy"
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        web = ["--webui-port", "0"]
        place = ["--host", HOST, "--port", str(port), *web]
        log = folder / "master.log"
        stack.enter_context(process(log, variables, f"{deploy}.master.Master", *place))
        wait_for(log, "I have been elected leader|New state: ALIVE")
        for number, host in enumerate(hosts, 1):
            place = ["--host", host, *web]
            log = folder / f"worker-{number}.log"
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            stack.enter_context(
                process(log, variables, f"{deploy}.worker.Worker", *size, *place, address)
            )
            wait_for(log, "Successfully registered with master")
        yield address


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster for all tests that need nothing special."""
    needs_spark()
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_a_cluster_of_processes_on_this_machine(pipeline: PipelineProcess) -> None:
    run_with_ottla(pipeline, "local-cluster[2,1,1024]")


def test_a_standalone_master_with_two_workers(pipeline: PipelineProcess, master: str) -> None:
    run_with_ottla(pipeline, master)


def test_spark_submit_runs_the_same_program(pipeline: PipelineProcess, master: str) -> None:
    submit = [script("spark-submit"), "--master", master]
    run(pipeline, *submit, str(pipeline.file), *pipeline.arguments("available-now"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a second loopback address")
def test_tasks_that_run_twice_at_once_write_their_rows_once(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> None:
    """Spark begins a slow task once more, on another host, and takes what is done first."""
    needs_spark()
    scene = Scene(ottla_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    scene.create()
    scene.feed(150)
    flags = tmp_path / "flags"
    flags.mkdir()
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.01",
    }
    with standalone(tmp_path, (HOST, "127.0.0.2")) as master:
        scene.finish(master=master, kind="doubled", flags=str(flags), conf=conf)
    scene.check_done()
    attempts = sorted(each.name for each in flags.iterdir())
    assert {"0-1-0", "0-1-1", "1-1-0", "1-1-1"} <= set(attempts)
    scene.clean_up()


def test_a_driver_that_is_killed_on_a_cluster_loses_and_repeats_nothing(
    pipeline: PipelineProcess, master: str
) -> None:
    for _ in range(2):
        before = pipeline.values().total()
        pipeline.feed(600)
        pipeline.start("--master", master)
        # In the middle: there are some micro-batches to go.
        pipeline.until_out(before + 60)
        pipeline.kill()
        assert pipeline.values().total() < pipeline.expected().total()
        pipeline.check_nothing_twice()
    pipeline.start("--master", master)
    pipeline.check_exactly_once()
    pipeline.send(signal.SIGTERM)
    assert pipeline.wait() == 0, pipeline.said()


# What goes along: modules, and whole environments.

ROOT = Path(__file__).parents[2]
# The key says where the code of a task comes from.
WITH_MODULE = """
from ottla.spark import Pipeline
from pyspark.sql.functions import udf

import rules

Pipeline(
    {name!r},
    source={source!r},
    sink={sink!r},
    transform=lambda df: df.select(udf(rules.place)().alias("key"), "value"),
    trigger="available-now",
    checkpoint={checkpoint!r},
).run()
"""
RULES = """
import ottla


def place():
    return f"{__file__} {ottla.__file__}"
"""


class Going:
    """A program that imports a module which tasks need too, and a broker for it."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.sink, self.folder = servers, f"{name}-out", folder
        self.file = folder / "places.py"
        (folder / "rules.py").write_text(RULES, encoding="utf-8")
        checkpoint = str(folder / "checkpoint")
        source = f"{name}-in"
        program = WITH_MODULE.format(
            name=name, source=source, sink=self.sink, checkpoint=checkpoint
        )
        self.file.write_text(program, encoding="utf-8")
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(source, 1), NewTopic(self.sink, 1)])
        with ottla.Producer(bootstrap_servers=servers) as producer:
            producer.send_many(source, [b"1", b"2"])

    def run(self, *command: str, cwd: Path, **variables: str) -> tuple[str, str]:
        """Where a task found the module and our package."""
        done = subprocess.run(
            command,
            env=environment(OTTLA_BOOTSTRAP_SERVER=self.servers, **variables),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        with ottla.Consumer(
            {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        ) as consumer:
            keys = [record.key for record in records_of(consumer, self.sink)]
        assert len(keys) == 2
        module, package = keys[0].decode().split()
        return module, package


@pytest.fixture
def going(ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Going:
    needs_spark()
    folder = tmp_path / "program"
    folder.mkdir()
    return Going(ottla_broker.bootstrap_servers, ottla_topic_name(), folder)


OTTLA_RUN = (sys.executable, "-m", "ottla", "pipeline", "run")


def test_on_this_machine_tasks_find_modules_beside_the_program(
    going: Going, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    module, _ = going.run(*OTTLA_RUN, str(going.file), "--master", "local[2]", cwd=elsewhere)
    assert module == str(going.folder / "rules.py")


@pytest.mark.parametrize("how", ["ottla pipeline run", "spark-submit"])
def test_modules_go_along(going: Going, master: str, tmp_path: Path, how: str) -> None:
    module = str(going.folder / "rules.py")
    if how == "spark-submit":
        submit = [script("spark-submit"), "--master", master, "--py-files", module]
        command = [*submit, str(going.file)]
    else:
        files = ["--conf", f"spark.submit.pyFiles={module}"]
        command = [*OTTLA_RUN, str(going.file), "--master", master, *files]
    found, _ = going.run(*command, cwd=tmp_path)
    assert "/work-" in found, "it came from the folder of a worker"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has our package, and the archive of it; made as the guide says."""
    needs_spark()
    folder = tmp_path_factory.mktemp("packed")
    copy = folder / "sources"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    pip = [str(folder / "environment/bin/python"), "-m", "pip", "install", "--quiet"]
    done = subprocess.run([*pip, str(copy), "pyarrow"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no environment: {done.stderr[-500:]}")
    archive = ["tar", "czf", "environment.tar.gz", "-C", "environment", "."]
    subprocess.run(archive, cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("how", ["ottla pipeline run", "spark-submit"])
def test_an_environment_goes_along(going: Going, packed: Path, tmp_path: Path, how: str) -> None:
    shipped = ["environment.tar.gz#environment", "./environment/bin/python"]
    module = str(going.folder / "rules.py")
    # Workers know nothing of our package: what they run has to come along.
    with standalone(tmp_path, PYTHONPATH="", PYSPARK_PYTHON="/nowhere") as master:
        python = ["--conf", f"spark.pyspark.python={shipped[1]}"]
        if how == "spark-submit":
            submit = [script("spark-submit"), "--master", master, "--py-files", module]
            command = [*submit, "--archives", shipped[0], *python, str(going.file)]
        else:
            conf = ["--conf", f"spark.archives={shipped[0]}", *python]
            files = ["--conf", f"spark.submit.pyFiles={module}"]
            command = [*OTTLA_RUN, str(going.file), "--master", master, *conf, *files]
        _, package = going.run(*command, cwd=packed, PYSPARK_PYTHON="", PYSPARK_DRIVER_PYTHON="")
    assert "/work-" in package, "it came from the folder of a worker"
    assert "/environment/" in package
