"""A file's loops, and one of them with its input. Imported by workers: no typer, no rich."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, json

from yaoki.cli._bind import arguments_of, missing_of
from yaoki.cli._exits import CommandError
from yaoki.cli._target import find_loop_name, load_file, split_target
from yaoki.errors import EncodingError

if TYPE_CHECKING:
    from inspect import Signature
    from types import ModuleType

    from msgspec import Raw, UnsetType

    from yaoki.journal import RunRow
    from yaoki.runtime import Bound, Loop

__all__ = ["bound_of", "loops_of"]


def bound_of(target: str, given: Raw | UnsetType, run_id: str, store: str) -> Bound[Any]:
    """Return the loop with its arguments: those given, else those the run has, else none."""
    path, name = split_target(target)
    module = load_file(path)
    loops = loops_of(module)
    loop = loops[find_loop_name(name, sorted(loops), str(path))]
    if given is UNSET:
        row = _stored(run_id, store)
        if row is not None and row.loop != loop.name:
            raise CommandError("run.input_mismatch", f"run {run_id} belongs to loop {row.loop}, not {loop.name}")
        if row is not None:
            return loop.bind_data(row.input)
        args, kwargs = missing_of(_spoken(loop), loop.name)
    else:
        args, kwargs = arguments_of(_spoken(loop), json.decode(given), loop.name)
    try:
        bound: Bound[Any] = loop.bind(*args, **kwargs)
    except (EncodingError, TypeError) as error:
        raise CommandError("input.mismatch", f"--input does not fit {loop.name}: {error}") from error
    return bound


def loops_of(module: ModuleType) -> dict[str, Loop[..., Any]]:
    """Return the module's loops by the name they have there, and by their own where that is another."""
    from yaoki.runtime import Loop

    found: dict[str, Loop[..., Any]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Loop):
            loop = cast("Loop[..., Any]", value)
            found.setdefault(loop.name, loop)
            found[name] = loop
    return found


def _spoken(loop: Loop[..., Any]) -> Signature:
    """
    Return what a person can say to a loop: its parameters without the Local ones, which its file fills in.

    Raises:
        CommandError: One is not filled in.
    """
    local = loop.params.local
    parameters = loop.signature.parameters
    missing = [name for name in sorted(local - loop.locals.keys()) if parameters[name].default is Parameter.empty]
    if missing:
        raise CommandError(
            "loop.locals",
            f"{loop.name} needs {', '.join(missing)}, which no input can give; "
            f"name one in the file: served = {loop.name}.with_locals({missing[0]}=…)",
        )
    return loop.signature.replace(parameters=[p for name, p in parameters.items() if name not in local])


def _stored(run_id: str, store: str) -> RunRow | None:
    """
    Return the run, with the arguments it has already, or `None`: there is no such run, or no store yet.

    Raises:
        JournalError: The store cannot be read.
    """
    from yaoki.clock import SystemClock
    from yaoki.journal import Journal
    from yaoki.journal._place import is_there, path_of

    if not is_there(path_of(store)[1]):
        return None
    journal = Journal.open(store, clock=SystemClock(), create=False, worker=False)
    try:
        return journal.get(run_id)
    finally:
        journal.close()
