"""The shell as a tool: a command is started once, and its result is learned, whatever becomes of the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from yaoki.clock import SystemClock
from yaoki.errors import DeclarationError, RetryableError
from yaoki.records import Effect
from yaoki.runtime import INJECTED, Happened, NotHappened, Tool, tool
from yaoki.shell._call import LOOK_S, Call, Question, ShellResult

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from yaoki.policy import Retry, Rung
    from yaoki.shell._start import Started

__all__ = ["OUTPUT_MAX_BYTES", "AsyncShell", "EffectOfCommand", "Shell", "ashell_tool", "shell_tool"]

EffectOfCommand: TypeAlias = Effect | Callable[[Any], Effect]

OUTPUT_MAX_BYTES = 256 * 1024
_OUTPUT_MOST_BYTES = 2 * 1024 * 1024
"""Each may become six characters of JSON, and a result holds 16 MB."""
_REPEATABLE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})

if TYPE_CHECKING:

    class Shell(Tool[..., ShellResult]):
        """A shell tool as it is called."""

        def __call__(
            self, command: str | list[str], *, cwd: str | None = None, env: dict[str, str] | None = None
        ) -> ShellResult:
            """Execute a command."""
            ...

    class AsyncShell(Tool[..., Coroutine[Any, Any, ShellResult]]):
        """An async shell tool as it is called."""

        def __call__(
            self, command: str | list[str], *, cwd: str | None = None, env: dict[str, str] | None = None
        ) -> Coroutine[Any, Any, ShellResult]:
            """Execute a command."""
            ...

else:
    Shell = AsyncShell = Tool


def shell_tool(
    effect: EffectOfCommand | None = None,
    *,
    name: str = "shell",
    timeout_s: float = 120,
    output_max_bytes: int = OUTPUT_MAX_BYTES,
    retry: Retry | None = None,
    scope: str | None = None,
    escalate: Sequence[Rung] | Rung | None = None,
) -> Shell:
    """
    Return a shell tool with a policy of its own; `shell` is the one with none.

        bash = shell_tool(lambda command: Effect.READ_ONLY if command == "git status" else Effect.CHECKED, name="bash")

    Args:
        effect: CHECKED by default: a command is started once, and after a crash its result is learned. READ_ONLY or
            IDEMPOTENT: it may be started again instead. AT_MOST_ONCE: a person is asked instead. Or a function of
            the command that says which.
        name: Its name, for a model and in the journal.
        timeout_s: How long a command may run; then its process group is killed, and the attempt is `transient`.
        output_max_bytes: How much of its output is kept, the end of it; 1 to 2 MiB.
        retry: Its ladder's bounds.
        scope: As for `tool`.
        escalate: As for `tool`.

    Raises:
        DeclarationError: A policy that cannot work.
    """
    keep = _refuse_size(output_max_bytes)
    kind_of = _kind_of(effect)

    def run(
        command: str | list[str],
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        idempotency_key: str = INJECTED,
        timeout_s: float = INJECTED,
    ) -> ShellResult:
        """
        Execute a command on this machine and return its exit code and output; a failing command is no error.

        A string is for the shell, a list is a program and its arguments. It gets no input.
        """
        repeatable = kind_of(command) in _REPEATABLE
        call = Call(command, idempotency_key, timeout_s=timeout_s, keep=keep, repeatable=repeatable)
        for pause_s in call.pauses():
            SystemClock().sleep(pause_s)
        started = call.start(cwd, env)
        try:
            started.wait()
        except BaseException:
            started.stop()
            started.wait()
            raise
        finally:
            started.close()
        return call.result()

    policy: dict[str, Any] = {
        "name": name,
        "timeout_s": timeout_s,
        "retry": retry,
        "scope": scope,
        "escalate": escalate,
    }
    decorate: Any = tool(**_checked(effect, kind_of, _became), **policy)
    return cast("Shell", decorate(run))


def ashell_tool(
    effect: EffectOfCommand | None = None,
    *,
    name: str = "shell",
    timeout_s: float = 120,
    output_max_bytes: int = OUTPUT_MAX_BYTES,
    retry: Retry | None = None,
    scope: str | None = None,
    escalate: Sequence[Rung] | Rung | None = None,
) -> AsyncShell:
    """Return an async shell tool, as `shell_tool`. Cancelled, it kills the command's process group."""
    keep = _refuse_size(output_max_bytes)
    kind_of = _kind_of(effect)

    async def run(
        command: str | list[str],
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        idempotency_key: str = INJECTED,
        timeout_s: float = INJECTED,
    ) -> ShellResult:
        """
        Execute a command on this machine and return its exit code and output; a failing command is no error.

        A string is for the shell, a list is a program and its arguments. It gets no input.
        """
        import asyncio

        repeatable = kind_of(command) in _REPEATABLE
        call = Call(command, idempotency_key, timeout_s=timeout_s, keep=keep, repeatable=repeatable)
        for pause_s in call.pauses():
            await asyncio.sleep(pause_s)
        await _ended(call.start(cwd, env))
        return call.result()

    policy: dict[str, Any] = {
        "name": name,
        "timeout_s": timeout_s,
        "retry": retry,
        "scope": scope,
        "escalate": escalate,
    }
    decorate: Any = tool(**_checked(effect, kind_of, _became_later), **policy)
    return cast("AsyncShell", decorate(run))


def _became(
    command: str | list[str],
    cwd: str | None,
    env: dict[str, str] | None,
    *,
    idempotency_key: str = INJECTED,
    timeout_s: float = INJECTED,
) -> Happened[ShellResult] | NotHappened:
    """Say what became of a command: by its key, so that nothing else is asked for."""
    del command, cwd, env
    question, clock = Question(idempotency_key), SystemClock()
    until_s = clock.monotonic_s() + timeout_s
    while question.open():
        if clock.monotonic_s() > until_s:
            msg = "the command still runs"
            raise RetryableError(msg)
        clock.sleep(LOOK_S)
    return question.answer()


async def _became_later(
    command: str | list[str], cwd: str | None, env: dict[str, str] | None, *, idempotency_key: str = INJECTED
) -> Happened[ShellResult] | NotHappened:
    """Say what became of a command, as `_became`; bounded by the check's own timeout."""
    import asyncio

    del command, cwd, env
    question = Question(idempotency_key)
    while question.open():  # noqa: ASYNC110 - another process ends it, which tells nobody here
        await asyncio.sleep(LOOK_S)
    return question.answer()


async def _ended(started: Started) -> None:
    """Wait for a command's end; cancelled meanwhile, see to it that it ends."""
    import asyncio

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(started.fileno(), lambda: None if ended.done() else ended.set_result(None))
    try:
        await asyncio.wait([ended])
    except asyncio.CancelledError:
        started.stop()
        await asyncio.wait([ended], timeout=_STOP_S)
        raise
    finally:
        loop.remove_reader(started.fileno())
        if not ended.done():
            started.stop()
        started.close(ended=ended.done())


_STOP_S = 3.0
"""The watcher's grace, and a second."""


def _kind_of(effect: EffectOfCommand | None) -> Callable[[str | list[str]], Effect]:
    if effect is None:
        return lambda _: Effect.CHECKED
    if isinstance(effect, Effect):
        _refuse_kind(effect)
        return lambda _: effect

    def kind_of(command: str | list[str]) -> Effect:
        return _refuse_kind(effect(command))

    return kind_of


def _refuse_kind(effect: Effect) -> Effect:
    if effect is Effect.KEYED:
        msg = "a shell tool is not KEYED: a command started twice runs twice. CHECKED, its default, starts it once"
        raise DeclarationError(msg)
    return effect


def _checked(
    effect: EffectOfCommand | None, kind_of: Callable[[str | list[str]], Effect], check: Callable[..., Any]
) -> dict[str, Any]:
    """Return a tool's `effect` and `check`, as they go together."""
    if effect is None or effect is Effect.CHECKED:
        return {"check": check, "check_after_s": 0}
    if isinstance(effect, Effect):
        return {"effect": effect}

    def kind(command: str | list[str], cwd: str | None, env: dict[str, str] | None) -> Effect:
        del cwd, env
        return kind_of(command)

    return {"effect": kind, "check": check, "check_after_s": 0}


def _refuse_size(output_max_bytes: int) -> int:
    if not 1 <= output_max_bytes <= _OUTPUT_MOST_BYTES:
        msg = f"output_max_bytes={output_max_bytes}: it lies between 1 and {_OUTPUT_MOST_BYTES:,}"
        raise DeclarationError(msg)
    return output_max_bytes
