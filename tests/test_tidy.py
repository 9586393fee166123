"""The rules of CONTRIBUTING.md that a program can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ottla"

# Imports point down only: from a later row to an earlier one.
LAYERS = [
    ["error_codes"],
    [
        "errors",
        "version",
        "event_loop",
        "events",
        "failed_logins",
        "file_state",
        "fresh_pages",
        "histogram",
        "in_process",
        "names",
        "worker_python",
    ],
    ["access", "durations", "exposition", "model"],
    ["config"],
    ["tls", "wire", "records"],
    ["doors"],
    ["core"],
    ["ports"],
    ["storage"],
    ["broker"],
    ["client"],
    ["schemas"],
    ["app"],
    ["spark"],
    ["inspection"],
    ["console"],
    ["cli"],
    ["testing"],
]
# The package itself, what else it exports and `python -m ottla` stand above all layers.
TOP = {"__init__", "__main__", "admin", "aio", "assignors"}

LOWER_LAYERS = {"access", "errors", "model", "config", "wire", "records", "core"}
PURE_STANDARD_MODULES = {
    "__future__",
    "abc",
    "base64",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "ipaddress",
    "itertools",
    "math",
    "operator",
    "re",
    "struct",
    "types",
    "typing",
    "uuid",
    "zlib",
}
CORE_MAY_IMPORT = LOWER_LAYERS | PURE_STANDARD_MODULES
# uuid is welcome in core as a type, not as a source of randomness.
CORE_MUST_NOT_NAME = {"uuid1", "uuid4", "getnode", "open", "print", "input"}

# Of wire, core uses what records carry (ADR 0011); requests and frames are the broker's.
CORE_MUST_NOT_IMPORT = ("ottla.wire.messages", "ottla.wire.framing")

MAX_FUNCTION_LINES = 70
MAX_INIT_LINES = 60
FORBIDDEN_NAMES = {
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "managers",
    "base",
    "common",
    "misc",
}

# Exceptions, each with its reason. One that is no longer needed fails the test.
LONG_FUNCTIONS: dict[str, str] = {}
_TESTS_OF_APPS = "app.test() runs the app on a broker for tests; imported when it is called"
UPWARD_IMPORTS: dict[tuple[str, str], str] = {
    ("src/ottla/app/application.py", "ottla.testing.app_under_test"): _TESTS_OF_APPS,
    ("src/ottla/app/application.py", "ottla.testing.broker"): _TESTS_OF_APPS,
}
MESSAGES_WITHOUT_HANDLER: dict[str, str] = {}
HANDLERS_WITHOUT_MESSAGE: dict[str, str] = {}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_files(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


# Layers


def unit_of(module: str) -> str:
    """The part of a dotted module name that LAYERS knows: `config` of `ottla.config.topic`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names of what is imported anywhere in a module, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # ruff's rules do not forbid relative imports, the layers do: they hide the unit.
            assert node.level == 0, "write absolute imports"
            module = node.module or ""
            if module in ("ottla", "ottla.wire"):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            else:
                yield module


def upward_imports(module: str, tree: ast.Module) -> list[str]:
    """Imports of a module that do not point down."""
    rank = {unit: row for row, units in enumerate(LAYERS) for unit in units}
    rank |= dict.fromkeys(TOP, len(LAYERS))
    own = unit_of(module)
    assert own in rank, f"{module} is in no layer: add {own} to LAYERS"
    ours = [name for name in imports(tree) if name.split(".")[0] == "ottla"]
    wrong = []
    for name in ours:
        unit = unit_of(name)
        # `from ottla import X` may name what ottla/__init__.py defines: that is the top.
        if unit != own and rank.get(unit, len(LAYERS)) >= rank[own]:
            wrong.append(name)
    return wrong


def test_imports_point_down_only() -> None:
    found = {
        (name_of(path), name)
        for path in python_files("src/ottla")
        for name in upward_imports(module_of(path), parsed(path))
    }
    assert found == set(UPWARD_IMPORTS)


def imported_modules(tree: ast.Module, known: set[str]) -> set[str]:
    """The known modules that a module imports, inside functions and for type checking too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names & known


def test_the_broker_has_no_import_cycle() -> None:
    files = {module_of(path): path for path in python_files("src/ottla/broker")}
    imported = {
        module: imported_modules(parsed(path), set(files)) for module, path in files.items()
    }
    # Packages have nothing in them but a docstring.
    graph = {module: names - {module} for module, names in imported.items()}
    assert set(TopologicalSorter(graph).static_order()) == set(files)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("ottla.config.topic", "from ottla.errors import ConfigError", []),
        ("ottla.config.topic", "from ottla.config.options import Config", []),
        ("ottla.config.topic", "import ottla.wire.types", ["ottla.wire.types"]),
        ("ottla.wire.types", "from ottla.records.crc import crc32c", ["ottla.records.crc"]),
        ("ottla.core.fetch", "from ottla import ports", ["ottla.ports"]),
        ("ottla.core.fetch", "def f():\n  import ottla.broker", ["ottla.broker"]),
        ("ottla.cli.main", "from ottla import Broker", ["ottla.Broker"]),
        ("ottla", "from ottla.broker.embedded import Broker", []),
    ],
)
def test_the_layer_check_sees_what_points_up(module: str, source: str, wrong: list[str]) -> None:
    assert upward_imports(module, ast.parse(source)) == wrong


# Purity of core


def impurities(tree: ast.Module) -> Iterator[str]:
    """What a module of core imports or names although it must not."""
    for name in imports(tree):
        unit = unit_of(name) if name.split(".")[0] == "ottla" else name.split(".")[0]
        if unit not in CORE_MAY_IMPORT or name.startswith(CORE_MUST_NOT_IMPORT):
            yield f"imports {name}"
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                if name in CORE_MUST_NOT_NAME:
                    yield f"names {name}"
            case ast.AsyncFunctionDef() | ast.Await():
                yield f"line {node.lineno} is asynchronous"


# Calls that keep the order of their argument; sorted, len, min, sum, any ... do not.
ORDERED_CALLS = {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "deque"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}


class SetIteration(ast.NodeVisitor):
    """Finds loops and conversions whose order is that of a set, as far as syntax tells."""

    def __init__(self, tree: ast.Module) -> None:
        self.lines: list[int] = []
        self.sets: set[str] = set()
        for _ in range(2):  # a second time for what is made of names that are declared below
            for node in ast.walk(tree):
                self._learn(node)
        self.visit(tree)

    def _learn(self, node: ast.AST) -> None:
        """Remember the names of variables, arguments and fields that are sets."""
        if isinstance(node, ast.AnnAssign) and self._is_set_type(node.annotation):
            self._remember(node.target)
        elif isinstance(node, ast.arg) and self._is_set_type(node.annotation):
            self.sets.add(node.arg)
        elif isinstance(node, ast.Assign) and self._is_set(node.value):
            for target in node.targets:
                self._remember(target)

    def _remember(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.sets.add(target.id)
        elif isinstance(target, ast.Attribute):
            self.sets.add(target.attr)

    def _is_set_type(self, annotation: ast.expr | None) -> bool:
        if isinstance(annotation, ast.Subscript):
            annotation = annotation.value
        return isinstance(annotation, ast.Name) and annotation.id in SET_TYPES

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name in self.sets
            case ast.Call(func=ast.Name(id=name)):
                return name in SET_TYPES
            case ast.Call(func=ast.Subscript() as func):
                return self._is_set_type(func)
            case ast.Call(func=ast.Attribute(attr=name, value=value)):
                return name in SET_METHODS and self._is_set(value)
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub(), right=right):
                return self._is_set(left) or self._is_set(right)
            case _:
                return False

    def _check(self, node: ast.expr) -> None:
        if self._is_set(node):
            self.lines.append(node.lineno)

    def visit_For(self, node: ast.For) -> None:
        self._check(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._check(node.iter)
        self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        # A set made of a set has no order to lose.
        self.visit(node.elt)
        for generator in node.generators:
            self.generic_visit(generator)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._check(node.value)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        for item in node.elts:
            if isinstance(item, ast.Starred):
                self.generic_visit(item)
            else:
                self.visit(item)

    def visit_Call(self, node: ast.Call) -> None:
        ordered = isinstance(node.func, ast.Name) and node.func.id in ORDERED_CALLS
        joins = isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "fromkeys")
        pops = isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args
        if ordered or joins:
            for argument in node.args:
                self._check(argument)
        if pops and isinstance(node.func, ast.Attribute):
            self._check(node.func.value)
        self.generic_visit(node)


def test_core_is_pure() -> None:
    found = [
        f"{name_of(path)} {problem}"
        for path in python_files("src/ottla/core")
        for problem in impurities(parsed(path))
    ]
    assert found == []


def test_core_iterates_no_set() -> None:
    found = [
        f"{name_of(path)}:{line}"
        for path in python_files("src/ottla/core")
        for line in SetIteration(parsed(path)).lines
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from asyncio import Event",
        "import ottla.ports",
        "from ottla.wire.messages.join_group import JoinGroupRequest",
        "from ottla.wire import framing",
        "from ottla.storage.memory import MemoryEngine",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "open('x')",
        "async def f(): ...",
    ],
)
def test_the_purity_check_sees_impurity(source: str) -> None:
    assert list(impurities(ast.parse(source)))


def test_the_purity_check_lets_types_pass() -> None:
    source = "from uuid import UUID\nfrom ottla.errors import ErrorCode\nimport struct"
    source += "\nfrom ottla.wire.compile import decode_stored"
    assert not list(impurities(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: ...",
        "for x in set(y): ...",
        "a = set[str]()\n[x for x in a]",
        "a: set[int] = f()\nlist(a)",
        "def f(a: frozenset[str]):\n  yield from a",
        "class C:\n  members: set[str]\n  def f(self): return ','.join(self.members)",
        "a = {1}\nfor x in a | b: ...",
        "a = {x for x in y}\nb = [*a]",
        "a = {1}\nfor x in a.union(b): ...",
        "a = {1}\na.pop()",
        "self.a = set()\n{x: 1 for x in self.a}",
        "a = {1}\nb = {tuple(a), 1}",
        "a = {1}\nb = {tuple(a) for x in y}",
    ],
)
def test_the_set_check_sees_iteration(source: str) -> None:
    assert SetIteration(ast.parse(source)).lines


@pytest.mark.parametrize(
    "source",
    [
        "for x in [1, 2]: ...",
        "a = {1}\nfor x in sorted(a): ...",
        "a: set[int] = f()\nlen(a), 1 in a, any(a)",
        "a = {1: 2}\nfor x in a: ...",
        "a = {1}\nb = {x + 1 for x in a}",
        "a = {1}\nb = {*a, 2}",
        "a = [1]\na.pop()",
    ],
)
def test_the_set_check_lets_the_rest_pass(source: str) -> None:
    assert SetIteration(ast.parse(source)).lines == []


# Sizes and names


def test_functions_are_short() -> None:
    found = {
        f"{name_of(path)}:{node.name}"
        for path in python_files("src", "tests", "benchmarks")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert found == set(LONG_FUNCTIONS)


def test_packages_have_small_init_modules() -> None:
    found = [
        name_of(path)
        for path in python_files("src")
        if path.name == "__init__.py"
        and len(path.read_text(encoding="utf-8").splitlines()) > MAX_INIT_LINES
    ]
    assert found == []


def test_modules_have_names_that_say_something() -> None:
    found = [
        name_of(path)
        for path in python_files("src", "tests", "benchmarks")
        for part in (*path.relative_to(ROOT).parent.parts, path.stem)
        if FORBIDDEN_NAMES.intersection(part.split("_"))
    ]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    found = [
        name_of(path) for path in python_files("src") if ast.get_docstring(parsed(path)) is None
    ]
    assert found == []


# One name per API


def modules_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


def test_every_message_has_a_handler_and_every_handler_a_message() -> None:
    messages = modules_in(PACKAGE / "wire" / "messages")
    handlers = modules_in(PACKAGE / "broker" / "handlers")
    not_enabled = modules_in(PACKAGE / "broker" / "handlers" / "not_enabled")
    assert handlers & not_enabled == set()
    handlers |= not_enabled
    assert messages
    assert messages - handlers == set(MESSAGES_WITHOUT_HANDLER)
    assert handlers - messages == set(HANDLERS_WITHOUT_MESSAGE)


def starred_tuples(tree: ast.Module) -> Iterator[int]:
    """Lines with values packed into tuples to save lines: f(*(a, b), *(c, d)), or the same in a tuple or list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List):
            yield node.lineno


def test_arguments_are_not_packed_into_tuples() -> None:
    found = [
        f"{name_of(path)}:{line}"
        for path in python_files("src")
        for line in starred_tuples(parsed(path))
    ]
    assert not found, "name the arguments, or split the function"


def test_the_check_of_packed_arguments_sees_them() -> None:
    assert list(starred_tuples(ast.parse("f(*(a, b), *(c, d))"))) == [1, 1]
    assert list(starred_tuples(ast.parse("row = (*(a, b), c)"))) == [1]
    assert list(starred_tuples(ast.parse("f(*both)"))) == []


# Documents


DOCUMENTS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "tests").rglob("FINDINGS.md")),
]
# A module, or a folder with a slash at its end.
NAMED_PATH = re.compile(r"`((?:\w+/)*\w+\.(?:pyx?|pxi)|(?:\w+/)+)`")


def dead_paths(text: str, every: set[str]) -> list[str]:
    """Paths that a document names and that end no path of the repository."""
    return [path for path in NAMED_PATH.findall(text) if f"/{path}" not in every]


def endings_of_paths() -> set[str]:
    """Every way to write a file or folder of the repository, beginning with a slash."""
    endings = {"/setup.py", "/results/"}  # benchmarks/results is not in the repository
    for folder in ("src", "tests", "benchmarks", "docs", "examples", "packaging"):
        for path in (ROOT / folder, *(ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            slash = "/" if path.is_dir() else ""
            endings |= {f"/{'/'.join(parts[n:])}{slash}" for n in range(len(parts))}
    return endings


def test_paths_in_documents_exist() -> None:
    every = endings_of_paths()
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    assert len(NAMED_PATH.findall(texts["ARCHITECTURE.md"])) > 50
    dead = {name: missing for name, text in texts.items() if (missing := dead_paths(text, every))}
    assert not dead


def test_the_check_of_paths_sees_dead_ones() -> None:
    every = {"/core/append.py", "/append.py", "/core/"}
    assert dead_paths("`core/append.py`, `append.py`, `core/`", every) == []
    assert dead_paths("`core/gone.py`, `gone.py`, `gone/`", every) == [
        "core/gone.py",
        "gone.py",
        "gone/",
    ]


def test_every_decision_is_in_the_index_and_has_its_parts() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"\]\((0[\w-]+\.md)\)", index) == [path.name for path in decisions]
    for path in decisions:
        assert f"adr/{path.name}" in site, path.name
        headings = re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Price"], path.name


def test_decisions_that_are_cited_exist() -> None:
    numbers = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("0*.md")}
    sources = [*python_files("src", "tests", "benchmarks"), *DOCUMENTS]
    cited = {
        (name_of(path), number)
        for path in sources
        for number in re.findall(r"ADR (\d{4})", path.read_text(encoding="utf-8"))
    }
    assert cited
    assert not [found for found in cited if found[1] not in numbers]
