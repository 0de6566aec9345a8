"""What `yaoki run` is pointed at: `FILE:LOOP`, loaded and looked up. Imported by the worker: no typer, no rich."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from difflib import get_close_matches
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

from yaoki.cli._exits import CommandError

if TYPE_CHECKING:
    from types import CodeType, ModuleType

__all__ = ["find_loop_name", "find_tool_name", "load_file", "split_target"]


def split_target(target: str) -> tuple[Path, str]:
    """
    Return the file and the loop's name, `""` where none was given.

    Raises:
        CommandError: There is no such file.
    """
    file, colon, name = target.rpartition(":")
    if not colon or "/" in name or name.endswith(".py"):
        file, name = target, ""
    path = Path(file)
    if not path.is_file():
        said = f"no file {file or '(empty)'}{_meant(file)} Say FILE:LOOP, as in agents.py:my_loop"
        raise CommandError("file.not_found", said)
    return path, name


def _meant(file: str) -> str:
    path = Path(file)
    if file and path.is_dir():
        return " (it is a directory)."
    try:
        beside = sorted(p.name for p in path.parent.iterdir() if p.suffix == ".py") if file else []
    except OSError:
        return "."
    close = get_close_matches(path.name, beside, n=1) or get_close_matches(path.name + ".py", beside, n=1)
    return f"; did you mean {path.parent / close[0]}?" if close else "."


def load_file(path: Path) -> ModuleType:
    """
    Return the file as an imported module, under its own name, its package's where it lies in one.

    Raises:
        CommandError: Importing it raised; the message has the file's own line and the error, on one line.
    """
    root, name = _module_name(path.resolve())
    sys.path.insert(0, str(root))
    try:
        if "." in name:
            return importlib.import_module(name)
        return _load(path.resolve(), name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CommandError("file.import", _import_error(path, error)) from error


def _module_name(path: Path) -> tuple[Path, str]:
    """Return the folder to import from and the dotted name, going up while there is an `__init__.py`."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(parts))


def _load(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        name = f"_run_{name}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise CommandError("file.import", f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _Fresh(SourceFileLoader):
    """
    Reads the source, never its bytecode.

    Bytecode counts as current while the source has the same size and the same second of change; an edit and
    a run within that second would go on with the old code. Python does the same for the script it is given.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source as it is now."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _import_error(path: Path, error: BaseException) -> str:
    if isinstance(error, CommandError):
        return error.message
    text = " ".join(str(error).split()) or "raised while it was imported"
    if isinstance(error, SyntaxError):
        return f"{error.filename or path}:{error.lineno or 0}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path.resolve()]
    where = f"{path}:{own[-1].lineno}" if own else str(path)
    return f"{where}: {type(error).__name__}: {text}"


def find_loop_name(wanted: str, names: list[str], file: str) -> str:
    """
    Return the name of the loop meant: the one asked for, or the only one there is.

    Raises:
        CommandError: There is none of that name, or the choice is not clear; the message lists them.
    """
    if wanted in names:
        return wanted
    if not names:
        raise CommandError("loop.not_found", f"{file} has no loop; decorate one: @loop def my_loop(run, …)")
    if not wanted and len(names) == 1:
        return names[0]
    there = ", ".join(names)
    if not wanted:
        raise CommandError("loop.not_found", f"which loop of {file}? {there}; say {file}:{names[0]}")
    close = get_close_matches(wanted, names, n=1)
    meant = f"; did you mean {file}:{close[0]}?" if close else ""
    raise CommandError("loop.not_found", f"no loop {wanted} in {file}; there: {there}{meant}")


def find_tool_name(wanted: str, tools: list[str], loops: list[str], file: str) -> str:
    """
    Return the name of the tool meant: the one asked for, or the only one there is.

    Raises:
        CommandError: There is none of that name, or the choice is not clear; the message lists tools and loops.
    """
    if wanted in tools:
        return wanted
    if not tools:
        raise CommandError("tool.not_found", f"{file} has no tool; decorate one: @tool def my_tool(…)")
    if not wanted and len(tools) == 1:
        return tools[0]
    there = ", ".join([*tools, *loops])
    if not wanted:
        raise CommandError("tool.not_found", f"which tool or loop of {file}? {there}; say {file}:{tools[0]}")
    close = get_close_matches(wanted, [*tools, *loops], n=1)
    meant = f"; did you mean {file}:{close[0]}?" if close else ""
    raise CommandError("tool.not_found", f"no tool or loop {wanted} in {file}; there: {there}{meant}")
