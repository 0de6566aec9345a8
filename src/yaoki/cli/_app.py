"""The command line: its verbs, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._out import Out
from yaoki.errors import (
    AnswerRefused,
    DeclarationError,
    EncodingError,
    InputMismatch,
    RunNotFound,
    YaokiError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run_command"]

_VERBS = {
    "run": "Run a loop, or go on with it, until it ends or waits.",
    "submit": "Leave a run in the store for a worker.",
    "worker": "Drive submitted runs, and those that wake or were left by a death.",
    "kill": "Kill a worker that hangs; its runs go on elsewhere.",
    "runs": "List the runs, those that need you first.",
    "show": "Say why a run is where it is, and what to type next.",
    "answer": "Answer a question of a run.",
    "signal": "Send a run the signal it waits for.",
    "top-up": "Add to a run's budget, or a group's.",
    "group": "Show what groups of runs have spent, and set their budgets.",
    "cancel": "Cancel a run: nothing new begins.",
    "redrive": "Let a dead run go on, at its step or in a new pass; or all of them.",
    "dead": "List what runs died of, and what to type about it.",
    "discard": "Delete ended runs for good; their ids stay taken.",
    "pause": "Pause the store, or a scope: nothing new begins, nothing is lost.",
    "unpause": "Let a paused store, or a scope, go on.",
    "breakers": "List the scopes that are given a rest, and why.",
    "stats": "Say how often tools fail at first, and how it ends.",
    "explain": "Say how an error would be treated, and which rule says so.",
    "check": "Look at a file's loops and tools before they run.",
    "doctor": "Look whether this machine and this store are fit to keep runs.",
    "prune": "Delete runs that ended long ago.",
    "backup": "Copy the store while it is in use.",
    "mcp-proxy": "Stand between an MCP client and a server, with deadlines and safe retries.",
    "prompts": "Print the rules in plain words, to paste into an assistant.",
    "demo": "See it survive: failures, kills, and an audit.",
}
"""Each is `yaoki.cli.<verb>.<verb>`, its dash an underscore; only the one that was typed is imported."""

_EPILOG = (
    "Exit codes: 0 done, 1 run dead, 2 usage, 3 waits for somebody, 4 capped, 5 cancelled, 70 failed or busy. "
    "yaoki --version says which version this is."
)
_USAGE = (AnswerRefused, DeclarationError, EncodingError, InputMismatch, RunNotFound)
"""Errors of what was typed; every other one is the command's own."""


def run_command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code; an error is one line on stderr, and JSON if that was asked for."""
    out = Out(as_json="--json" in argv)
    try:
        if list(argv[:1]) == ["--version"]:
            return _version()
        return _call(list(argv))
    except CommandError as error:
        return _refuse(out, error.code, error.message, error.exit_code, argv)
    except YaokiError as error:
        code = Exit.USAGE if isinstance(error, _USAGE) else Exit.FAILED
        return _refuse(out, error.code, str(error), code, argv)
    except UnicodeEncodeError as error:  # bytes on the command line that are no UTF-8
        said = f"{error.object!r} is no text: its bytes are not UTF-8"
        return _refuse(out, "usage", said, Exit.USAGE, argv)
    except KeyboardInterrupt:
        return _refuse(out, "interrupted", "interrupted", Exit.INTERRUPTED, argv)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is, people get one line
        return _refuse(out, "internal", f"{type(error).__name__}: {error}; see --debug", Exit.FAILED, argv)


def _version() -> int:
    from importlib.metadata import version

    sys.stdout.write(f"yaoki {version('yaoki')}\n")
    return Exit.DONE


def _call(argv: list[str]) -> int:
    if argv and argv[0].partition("=")[0] in _AFTER and (moved := _moved(argv)):
        raise CommandError("usage", f"{argv[0].partition('=')[0]} goes after the verb: {moved}")
    verb = next((word for word in argv if not word.startswith("-")), "")
    command = typer.main.get_command(_app(verb))
    try:
        result: object = command.main(argv, prog_name="yaoki", standalone_mode=False)
    except typer.Abort:
        return Exit.INTERRUPTED
    except typer.Exit as ended:
        return ended.exit_code
    except Exception as error:
        usage = _usage_of(error, verb, argv)
        if usage is None:
            raise
        if not usage:
            return Exit.USAGE
        raise CommandError("usage", usage) from error
    return result if isinstance(result, int) else Exit.DONE


_AFTER = ("--store", "--json", "--debug")
"""Options of every verb, which people also try before it."""


def _moved(argv: list[str]) -> str:
    """Return the command with what stands before its verb put at its end, or `""`: there is no verb."""
    at = next((i for i, word in enumerate(argv) if word in _VERBS and argv[i - 1] != "--store"), None)
    return "" if at is None else shlex.join(["yaoki", *argv[at:], *argv[:at]])


def _app(verb: str) -> typer.Typer:
    """Return the command with that verb in full and the others by their one line."""
    app = typer.Typer(
        name="yaoki",
        help="Runs agent loops that survive: killed anywhere, they end, and nothing is done twice unknowingly.",
        epilog=_EPILOG,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, help_ in _VERBS.items():
        app.command(name, short_help=help_)(_verb(name) if name == verb else _unread)
    return app


def _verb(name: str) -> Callable[..., int]:
    module = name.replace("-", "_")
    verb: Callable[..., int] = getattr(import_module(f"yaoki.cli.{module}"), module)
    return verb


def _unread() -> int:
    """Stand for a verb that was not typed: its name and its line are all that is read of it."""
    return Exit.FAILED


def _usage_of(error: Exception, verb: str, argv: list[str]) -> str | None:
    """Return the line for a wrong command line, empty if help was shown instead; `None` for any other error."""
    message = getattr(error, "format_message", None)
    if message is None:
        return None
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n" if str(error) else "")
        return ""
    text = " ".join(str(message()).split()).rstrip(".")
    if meant := _meant(text, verb, argv):
        return meant
    asked = f"yaoki {verb} --help" if verb in _VERBS else "yaoki --help"
    return f"{text}{'' if text.endswith('?') else '.'} See: {asked}"


_EXTRA = "Got unexpected extra argument"
_WITH_RUN = ("show", "cancel", "redrive", "top-up")


def _meant(text: str, verb: str, argv: list[str]) -> str:
    """Return a better line for a frequent slip, or nothing."""
    words = [word for word in argv if not word.startswith("-") and word != verb]
    if verb == "runs" and text.startswith(_EXTRA) and words:
        return f"yaoki runs takes no run: yaoki show {shlex.quote(words[0])} says where that one is"
    if verb in ("pause", "unpause") and text.startswith(_EXTRA) and words:
        return f"yaoki {verb} takes one scope at a time: yaoki {verb} {shlex.quote(words[0])}, or --all"
    if verb in _WITH_RUN and text.startswith(_EXTRA) and words:
        return f"yaoki {verb} takes one run at a time: yaoki {verb} {shlex.quote(words[0])}"
    if verb == "run" and text.startswith("Missing argument"):
        return "which loop? yaoki run FILE:LOOP, and --run-id ID to go on with a run; yaoki show ID has its FILE:LOOP"
    if verb == "answer" and text.startswith("Missing argument") and words:
        return f"say the answer too; yaoki show {shlex.quote(words[0])} lists what can be typed"
    return ""


def _refuse(out: Out, code: str, message: str, exit_code: int, argv: Sequence[str]) -> int:
    if "--debug" in argv:
        import traceback

        traceback.print_exc()
    out.error(code, message)
    return exit_code
