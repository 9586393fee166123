"""Finding the app of a program: `billing:app`, `shop.billing:app` or `billing.py:app`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from ottla.errors import ConfigError

T = TypeVar("T")

_IMPORT_MACHINERY: Final = ("<frozen importlib", importlib.__file__, __file__)
_LIBRARIES: Final = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OTTLA: Final = str(Path(__file__).resolve().parents[2]) + os.sep


class ProgramError(ConfigError):
    """The program cannot be run; `user_traceback` is the part of the traceback that lies in the program."""

    def __init__(self, message: str, user_traceback: str = "") -> None:
        super().__init__(message)
        self.user_traceback = user_traceback


def load(program: str, kind: type[T], kind_name: str) -> T:
    """The object of this class that `module:name` names; without a name, the only one of the module."""
    place, _, name = program.partition(":")
    module = _import(place)
    if not name:
        return _only(module, place, kind, kind_name)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ProgramError(f"{place} has no {name}{_instead(module, place, kind)}")
        found = getattr(found, part)
    if not isinstance(found, kind):
        raise ProgramError(
            f"{program} is no {kind_name} but {_kind_of(found)}{_instead(module, place, kind)}"
        )
    return found


def source_files() -> set[str]:
    """The files of the program that are loaded now, without installed packages and Python's own modules."""
    files = set()
    for module in [*sys.modules.values()]:
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and name.endswith(".py") and _is_of_the_program(name):
            files.add(os.path.realpath(name))
    return files


def files_of_error(error: BaseException | None) -> set[str]:
    """The files of the program that an error of its import leads through."""
    files = set()
    while error is not None:
        names = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename is not None:
            names.append(error.filename)
        files |= {os.path.realpath(name) for name in names if _is_of_the_program(name)}
        error = error.__cause__ or error.__context__
    return files


def place_of(program: str) -> set[str]:
    """The file that the program would be in, whether or not it is there."""
    place = program.partition(":")[0]
    name = place if place.endswith(".py") else place.replace(".", os.sep) + ".py"
    return {os.path.realpath(name)}


def _import(place: str) -> ModuleType:
    path = Path(place)
    if place.endswith(".py"):
        if not path.is_file():
            raise ProgramError(f"{place}: there is no such file")
        sys.path.insert(0, str(path.resolve().parent))
        place = path.stem
    elif os.sep in place:
        raise ProgramError(f"{place} is neither a module nor a file that ends with .py")
    else:
        sys.path.insert(0, os.getcwd())
    _check_exists(place)
    try:
        return importlib.import_module(place)
    except Exception as error:
        raise ProgramError(_import_error_text(place, error), _user_traceback(error)) from error
    except SystemExit as error:
        raise ProgramError(f"{place} ended the process while it was imported") from error


def _check_exists(place: str) -> None:
    try:
        if importlib.util.find_spec(place) is not None:
            return
    except ModuleNotFoundError as error:
        # A parent package is imported for this: what is missing may be an import of its own.
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise ProgramError(_import_error_text(place, error), _user_traceback(error)) from error
    except (ValueError, TypeError):
        pass
    except Exception as error:
        raise ProgramError(_import_error_text(place, error), _user_traceback(error)) from error
    raise ProgramError(
        f"there is no module {place}: give MODULE:NAME, as in billing:app, from the folder that has billing.py"
    )


def _import_error_text(place: str, error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{place} cannot be imported: {type(error).__name__}: {text}"


def _user_traceback(error: BaseException) -> str:
    """The traceback without our own frames and those of the import machinery."""
    report = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    part: traceback.TracebackException | None = report
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        part.stack = traceback.StackSummary.from_list(
            [frame for frame in part.stack if not frame.filename.startswith(_IMPORT_MACHINERY)]
        )
        part = part.__cause__ or part.__context__
    return "".join(report.format())


def _only(module: ModuleType, place: str, kind: type[T], kind_name: str) -> T:
    found = {name: each for name, each in vars(module).items() if isinstance(each, kind)}
    if len({id(each) for each in found.values()}) == 1:
        return next(iter(found.values()))
    if not found:
        raise ProgramError(f"{place} makes no {kind_name}: give MODULE:NAME, as in {place}:app")
    choices = " or ".join(f"{place}:{name}" for name in found)
    raise ProgramError(f"{place} has several of class {kind_name}: give {choices}")


def _instead(module: ModuleType, place: str, kind: type[object]) -> str:
    names = [name for name, each in vars(module).items() if isinstance(each, kind)]
    return f": did you mean {place}:{names[0]}?" if names else ""


def _kind_of(found: object) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"of {type(found)!r}"


def _is_of_the_program(name: str) -> bool:
    if name.startswith("<"):
        return False
    return not os.path.realpath(name).startswith((*_LIBRARIES, _OTTLA))
