"""
Every exception class the libraries under test export, and what each of them is, as reviewed.

    python -m tests.classify.canary            print what differs from `data/canary.txt`
    python -m tests.classify.canary --write    take the present answers over, for a person to review in the diff
    python -m tests.classify.canary --json     print all of them

An instance is made without its constructor, so an answer is what the class alone says.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from tests.classify.rebuilt import built
from yaoki.classify import classify, is_control_flow

REVIEWED = Path(__file__).parent / "data" / "canary.txt"

MODULES: dict[str, tuple[str, ...]] = {
    "agents": (),
    "aiohttp": (),
    "anthropic": (),
    "anyio": (),
    "apsw": (),
    "asyncpg": (),
    "botocore": ("exceptions", "session"),
    "grpc": ("aio",),
    "httpcore": (),
    "httpcore2": (),
    "httpx": (),
    "httpx2": (),
    "langchain_core": ("exceptions", "tools", "output_parsers"),
    "langgraph": ("errors", "graph", "pregel"),
    "mcp": ("client.session", "client.stdio", "client.streamable_http", "client.auth", "server"),
    "msgspec": (),
    "openai": (),
    "playwright": ("sync_api", "async_api"),
    "psycopg": ("errors",),
    "psycopg2": ("errors", "extensions"),
    "pydantic": (),
    "pydantic_ai": (),
    "pydantic_graph": (),
    "pymongo": (),
    "redis": ("asyncio", "cluster", "sentinel"),
    "requests": (),
    "sqlalchemy": ("orm", "ext.asyncio"),
    "sqlite3": (),
    "trio": (),
    "urllib3": (),
    "websockets": ("exceptions",),
}
"""A package and the modules of it that are imported; every class that is then loaded from it counts."""


def exported() -> Iterator[type[BaseException]]:
    """Yield each exception class of the packages; warnings and private ones are not raised at users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package, modules in MODULES.items():
            for name in ("", *modules):
                load(f"{package}.{name}".rstrip("."))
    for package in MODULES:
        found: dict[str, type[BaseException]] = {}
        for name, module in list(sys.modules.items()):
            if (name != package and not name.startswith(f"{package}.")) or old(name):
                continue
            for thing in list(vars(module).values()):
                if not isinstance(thing, type) or not issubclass(thing, BaseException):
                    continue
                own = thing.__module__.partition(".")[0] == package and not old(thing.__module__)
                if own and not issubclass(thing, Warning) and not thing.__name__.startswith("_"):
                    found[named(thing)] = thing
        yield from (found[name] for name in sorted(found))


def load(name: str) -> None:
    """Import the module, and what it says it exports but imports when asked."""
    module = importlib.import_module(name)
    for export in getattr(module, "__all__", ()):
        with contextlib.suppress(Exception):
            getattr(module, export)


def old(module: str) -> bool:
    """Whether the module is a copy of another library, or of an earlier version of its own."""
    return ".vendored" in module or module.startswith("pydantic.v1")


def named(cls: type[BaseException]) -> str:
    """Return package and class; where inside the package it lives is the library's own affair, and moves."""
    return f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"


def answer(cls: type[BaseException]) -> str:
    """Return kind, executed and reason of an error of this class."""
    error = made(cls)
    if is_control_flow(error):
        return "control"
    failure = classify(error, now_ms=0)
    rule = failure.evidence.partition(" ")[2]
    return f"{failure.kind.value} {failure.executed.value} {failure.reason} {rule}".strip()


def made(cls: type[BaseException]) -> BaseException:
    if issubclass(cls, BaseExceptionGroup):
        return cls("", [ValueError()])
    try:
        return cls.__new__(cls, "")
    except TypeError:  # an extension type that is made with its fields alone
        names = [f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__ if base is not object]
        return built(tuple(names))("")


def reviewed() -> dict[str, str]:
    lines = REVIEWED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


HEAD = """\
# class kind executed reason rule, of every exception class the libraries under test export.
# A class that is not here is new, and wants a deliberate answer; then: python -m tests.classify.canary --write
"""


def main() -> None:
    found = {named(cls): answer(cls) for cls in exported()}
    if "--write" in sys.argv:
        REVIEWED.write_text(HEAD + "".join(f"{name} {said}\n" for name, said in found.items()), encoding="utf-8")
        return
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    known = reviewed()
    for name, said in found.items():
        if known.get(name) != said:
            print(f"{name}: {known.get(name, 'not reviewed')} -> {said}")


if __name__ == "__main__":
    main()
