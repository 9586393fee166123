"""The sdist and the wheel: what is in them, and that the wheel works where nothing else is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
PLUGIN_TEST = """
import ottla

def test_a_broker(ottla_broker, ottla_topic):
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        assert producer.send(ottla_topic, value=b"one").result(timeout=60).offset == 0
"""


def copy_sources(target: Path) -> Path:
    """The files of the repository without what is left by builds; it is no git repository."""
    target.mkdir()
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, target)
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.egg-info")
    shutil.copytree(ROOT / "src", target / "src", ignore=left_out)
    return target


def run(*command: str | Path, folder: Path) -> str:
    """The output of a program that knows nothing of this repository; TimeoutError if it takes too long."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [*map(str, command)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from error
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def test_the_sdist_has_all_that_a_build_needs_and_nothing_that_was_built(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    program = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", program, tmp_path, folder=sources)
    (archive,) = tmp_path.glob("ottla-*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert names >= set(BUILT_FROM)
    for path in sources.joinpath("src").rglob("*"):
        is_left_out = "egg-info" in str(path) or path.is_dir()
        assert is_left_out or path.relative_to(sources).as_posix() in names, path
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]
    assert not [name for name in names if name.startswith(("tests", "benchmarks", ".venv"))]


def test_the_pythons_that_are_stated_are_those_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [
        line.rpartition(" ")[2]
        for line in project["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert project["requires-python"] == f">={stated[0]}"
    readme = (ROOT / "README.md").read_text()
    assert f"CPython {stated[0]} to {stated[-1]}" in readme


def reaches_packages(folder: Path) -> bool:
    """Whether pip finds packages, in its index or in a folder that it is told of."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
    done = subprocess.run(
        [*command, "--timeout", "10", "--retries", "1", "iniconfig"],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_the_wheel_works_alone_in_a_fresh_environment(tmp_path: Path) -> None:
    if importlib.util.find_spec("build") is None:
        pytest.skip("the package build is not installed (pip install build)")
    if not reaches_packages(tmp_path / "downloads"):
        pytest.skip("pip reaches no packages, and the build and the wheel need some")
    sources = copy_sources(tmp_path / "sources")
    built = tmp_path / "dist"
    # The wheel is built from the sdist, outside of the sources.
    run(sys.executable, "-m", "build", "--outdir", built, sources, folder=tmp_path)
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    kernels = len(list((sources / "src").rglob("*.pyx")))
    assert sum(name.endswith((".so", ".pyd")) for name in names) == kernels
    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", fresh, folder=tmp_path)
    python = fresh / "bin" / "python"
    run(python, "-m", "pip", "install", wheel, folder=tmp_path)
    assert "works in" in run(python, SMOKE, folder=tmp_path)
    run(python, "-m", "pip", "install", "pytest", folder=tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_plugin.py").write_text(PLUGIN_TEST)
    assert "1 passed" in run(python, "-m", "pytest", "-q", folder=project)
