"""
Yaoki's classification beside the rules people run today, over the same labelled errors, in one run.

    python bench/classify.py [--set NAME] [--json] [--check]

The peers' own code decides, as installed: the retry rules of the openai, anthropic and cohere SDKs, the code
lists of google-genai and mistralai, LiteLLM's `should_retry`, LangGraph's `default_retry_on`, redress' default
classifier, and "retry every exception". An SDK's rule sees the response, or the exception that its transport
raised; LangGraph and redress see the exception that the openai SDK makes of the response. `pip install
'yaoki[bench]'` brings them; one that is missing is named and left out.

The rules were written with all three sets at hand, `documented` most of all (tests/classify/data/SOURCES.md): Yaoki's
figures here say that nothing has been lost, not how it does on errors it never saw. mistralai's list is a literal
inside its methods, copied here.

A row is right if it is sent again exactly where the same request can succeed as it is. `in vain` were sent
again although it cannot, `given up` were not although it can; `f1` is the mean over the kinds, `wait` how many
waits that the server named were read to the millisecond; `us` is the time for one, the median of rounds.
The time is that of errors met before: Yaoki remembers what it made of the last few hundred sentences.
`--check` exits 1 where Yaoki is below 0.95, sends anything again in vain that is permanent or costs money, or
takes more than 30 us.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yaoki.classify import classify, is_control_flow, reported, resend

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

DATA = Path(__file__).parents[1] / "tests" / "classify" / "data"
SETS = {"wire": "wire_errors.jsonl", "exceptions": "exceptions.jsonl", "documented": "documented.jsonl"}
HEALING = {"transient", "rate_limited", "overloaded"}
AGAIN = {"yes", "if_idempotent"}
NOW_MS = 1_700_000_000_000
ROUNDS = 5
LEAST, MICROSECONDS_MOST = 0.95, 30.0
_EXACT_S = 0.001


@dataclass
class Case:
    """One labelled error, in the shapes that the peers take."""

    row: dict[str, Any]
    again: bool | None
    """Whether the same request can succeed as it is: the label `resend`, else by its kinds; None if these differ."""
    subject: Any
    """What Yaoki is given."""
    response: Any
    """What an SDK's retry rule is given, or None: the transport raised."""
    error: BaseException
    """What a rule for exceptions is given."""

    @property
    def kinds(self) -> set[str]:
        return {self.row["kind"], *self.row["accept"]}


@dataclass
class Verdict:
    """What a rule says of one error."""

    again: bool
    kind: str = ""
    """Empty where the rule knows no kinds."""
    wait_s: float | None = None


@dataclass
class Score:
    """A rule's figures over a set."""

    rule: str
    set: str
    rows: int
    right: float
    in_vain: int
    given_up: int
    costly: int
    """Of those in vain, how many are permanent or cost money."""
    f1: float | None
    waits: str
    us: float


# ---------------------------------------------------------------- the errors


def cases(name: str) -> list[Case]:
    found: list[Case] = []
    for line in (DATA / SETS[name]).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        again = labelled(row)
        subject = reported(row)
        error = made(row, subject)
        found.append(Case(row=row, again=again, subject=subject, response=response_of(row), error=error))
    return found


def labelled(row: dict[str, Any]) -> bool | None:
    if "resend" in row:
        return row["resend"] in AGAIN
    heals = {kind in HEALING for kind in (row["kind"], *row["accept"])}
    return heals.pop() if len(heals) == 1 else None


def response_of(row: dict[str, Any]) -> Any:  # noqa: ANN401 - of a client that may not be installed  # noqa: ANN401 - a library's module or object
    if row["http_status"] is None:
        return None
    import httpx2

    request = httpx2.Request("POST", "https://vendor.example/v1")
    said = row.get("body") or row.get("message") or ""
    headers = {**(row.get("headers") or {}), **({"content-type": "application/json"} if said.startswith("{") else {})}
    return httpx2.Response(row["http_status"], headers=headers, text=said, request=request)


def made(row: dict[str, Any], subject: object) -> BaseException:
    """Return the real exception where its library is here; of an answer, the one the openai SDK makes of it."""
    full = (row.get("mro") or [row["exception_class"] or ""])[0]
    module, _, name = full.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
        error = cls.__new__(cls, row.get("message") or row.get("body") or "")
        error.args = (row.get("message") or row.get("body") or "",)
        if row.get("errno") is not None:
            error.errno = row["errno"]
    except Exception:  # noqa: BLE001 - not installed, or not made without its fields
        return _by_openai(row, subject)
    if row["http_status"] is None:
        return error
    return _by_openai(row, subject)


def _by_openai(row: dict[str, Any], subject: object) -> BaseException:
    if (response := response_of(row)) is not None:
        try:
            import openai
        except ImportError:
            return RuntimeError(row.get("body"))
        return openai.OpenAI(api_key="x")._make_status_error_from_response(response)  # noqa: SLF001 - as the SDK does
    return subject if isinstance(subject, BaseException) else RuntimeError(row.get("body") or row.get("message"))


# ---------------------------------------------------------------- the rules


def ours() -> Callable[[Case], Verdict]:
    def judge(case: Case) -> Verdict:
        failure = classify(case.subject, now_ms=NOW_MS)
        steering = isinstance(case.subject, BaseException) and is_control_flow(case.subject)
        again = not steering and resend(failure) in AGAIN
        return Verdict(again, "control" if steering else failure.kind.value, failure.retry_after_s)

    return judge


def by_sdk(name: str, client: Callable[[Any], Any]) -> Callable[[], Callable[[Case], Verdict]]:
    """Return the rule of a generated SDK: its word on a response; of what its transport raises, it sends all again."""

    def load() -> Callable[[Case], Verdict]:
        sdk = client(import_module(name))
        httpx = import_module("httpx2")

        def judge(case: Case) -> Verdict:
            if case.response is None:
                return Verdict(_is_transport(case.error, httpx))
            again = sdk._should_retry(case.response)  # noqa: SLF001 - this is the rule
            return Verdict(again, "", sdk._parse_retry_after_header(case.response.headers))  # noqa: SLF001 - the same

        return judge

    return load


def _is_transport(error: BaseException, httpx: ModuleType) -> bool:
    """Whether it is what an SDK's own connection raises, which is all that its rule ever sees."""
    name = f"{type(error).__module__}.{type(error).__name__}"
    return isinstance(error, (httpx.TransportError, OSError)) or name.startswith(("httpx.", "httpcore.", "urllib3."))


def by_codes(codes: Callable[[], Callable[[int], bool]]) -> Callable[[], Callable[[Case], Verdict]]:
    """Return the rule of an SDK that has a list of statuses, and sends again what its transport raises."""

    def load() -> Callable[[Case], Verdict]:
        known = codes()
        httpx = import_module("httpx2")
        return lambda case: Verdict(
            known(case.row["http_status"]) if case.response is not None else _is_transport(case.error, httpx)
        )

    return load


def _google() -> Callable[[int], bool]:
    return import_module("google.genai._api_client")._RETRY_HTTP_STATUS_CODES.__contains__  # noqa: SLF001 - the list


def _mistral() -> Callable[[int], bool]:
    import_module("mistralai.client")
    # chat.py: `retry_config = (retries, ["429", "500", "502", "503", "504"])`, a literal inside each method.
    return {429, 500, 502, 503, 504}.__contains__


def _cohere() -> Callable[[int], bool]:
    rule = import_module("cohere.core.http_client")._should_retry  # noqa: SLF001 - the rule
    from types import SimpleNamespace

    return lambda status: rule(response=SimpleNamespace(status_code=status))


def _litellm() -> Callable[[int], bool]:
    import os

    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return import_module("litellm.utils").should_retry


def langgraph() -> Callable[[Case], Verdict]:
    rule = import_module("langgraph._internal._retry").default_retry_on
    return lambda case: Verdict(isinstance(case.error, Exception) and rule(case.error))


def redress() -> Callable[[Case], Verdict]:
    rule = import_module("redress.classify").default_classifier
    kinds = {
        "AUTH": "permanent", "PERMISSION": "permanent", "PERMANENT": "permanent", "CONCURRENCY": "transient",
        "RATE_LIMIT": "rate_limited", "SERVER_ERROR": "transient", "TRANSIENT": "transient", "UNKNOWN": "unknown",
    }  # fmt: skip
    stop = {
        "AUTH",
        "PERMISSION",
        "PERMANENT",
    }  # redress/policy/state.py; UNKNOWN is sent again, if only some times

    def judge(case: Case) -> Verdict:
        error = case.error
        if not hasattr(error, "status") and case.row["http_status"] is not None:
            error.status = case.row["http_status"]  # it looks for `status` or `code`, which the openai SDK does not set
        name = rule(error).name
        return Verdict(name not in stop, kinds[name])

    return judge


def everything() -> Callable[[Case], Verdict]:
    return lambda case: Verdict(again=isinstance(case.error, Exception))


RULES: dict[str, Callable[[], Callable[[Case], Verdict]]] = {
    "yaoki": ours,
    "openai": by_sdk("openai", lambda sdk: sdk.OpenAI(api_key="x")),
    "anthropic": by_sdk("anthropic", lambda sdk: sdk.Anthropic(api_key="x")),
    "google-genai": by_codes(_google),
    "mistralai": by_codes(_mistral),
    "cohere": by_codes(_cohere),
    "litellm": by_codes(_litellm),
    "langgraph": langgraph,
    "redress": redress,
    "every exception": everything,
}


# ---------------------------------------------------------------- the scores


def score(name: str, rule: Callable[[Case], Verdict], label: str, found: list[Case]) -> Score:
    verdicts = [rule(case) for case in found]
    pairs = list(zip(found, verdicts, strict=True))
    clear = [(case, said) for case, said in pairs if case.again is not None]
    vain = [case for case, said in clear if said.again and not case.again]
    told = [(case.row["retry_after_s"], said) for case, said in pairs if case.row.get("retry_after_s") is not None]
    exact = sum(1 for wait_s, said in told if said.wait_s is not None and abs(said.wait_s - wait_s) <= _EXACT_S)
    return Score(
        rule=name,
        set=label,
        rows=len(found),
        right=sum(1 for case, said in clear if case.again == said.again) / len(clear),
        in_vain=len(vain),
        given_up=sum(1 for case, said in clear if case.again and not said.again),
        costly=sum(1 for case in vain if case.row["kind"] in {"permanent", "budget"}),
        f1=macro_f1(pairs),
        waits=f"{exact}/{len(told)}" if told else "",
        us=timed(rule, found),
    )


def macro_f1(pairs: list[tuple[Case, Verdict]]) -> float | None:
    """Return the mean of the kinds' F1; an answer that the row accepts counts as its label."""
    if not all(said.kind for _, said in pairs):
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for case, said in pairs:
        counts[case.row["kind"], case.row["kind"] if said.kind in case.kinds else said.kind] += 1
    scores: list[float] = []
    for kind in {case.row["kind"] for case, _ in pairs}:
        true = counts[kind, kind]
        wrong = sum(count for (label, said), count in counts.items() if (label == kind) != (said == kind))
        scores.append(2 * true / (2 * true + wrong) if true else 0.0)
    return statistics.mean(scores)


def timed(rule: Callable[[Case], Verdict], found: list[Case]) -> float:
    """Return microseconds for one error, the median of rounds over all of them."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for case in found:
            rule(case)
        rounds.append((time.perf_counter() - begun) / len(found) * 1e6)
    return statistics.median(rounds)


def typical() -> dict[str, float]:
    """Return microseconds for exceptions as an SDK raises them, the best of many small rounds: an idle machine's."""
    import httpx2
    import openai

    client, request = openai.OpenAI(api_key="x"), httpx2.Request("POST", "https://vendor.example/v1")
    limited = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 6.5s."
    said = {
        "429": {"error": {"message": limited, "type": "tokens", "code": "rate_limit_exceeded"}},
        "500": {"error": {"message": "The server had an error", "type": "server_error"}},
    }
    errors: dict[str, BaseException] = {
        f"openai {status}": client._make_status_error_from_response(  # noqa: SLF001 - as the SDK does
            httpx2.Response(int(status), json=body, request=request)
        )
        for status, body in said.items()
    }
    errors["httpx2.ReadTimeout"] = httpx2.ReadTimeout("timed out")
    return {name: _best_us(error) for name, error in errors.items()}


def _best_us(error: BaseException) -> float:
    best = float("inf")
    for _ in range(300):
        begun = time.perf_counter()
        for _ in range(10):
            classify(error)
        best = min(best, (time.perf_counter() - begun) / 10 * 1e6)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--set", choices=SETS, help="only this one")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--check", action="store_true", help="exit 1 if Yaoki is below its goals")
    args = parser.parse_args()
    loaded: dict[str, Callable[[Case], Verdict]] = {}
    for name, load in RULES.items():
        try:
            loaded[name] = load()
        except ImportError as error:
            print(f"{name}: left out: {error}; pip install 'yaoki[bench]'", file=sys.stderr)
    labels = [args.set] if args.set else list(SETS)
    sets = {label: cases(label) for label in labels}
    scores = [score(name, rule, label, found) for label, found in sets.items() for name, rule in loaded.items()]
    costs = typical() if "openai" in loaded else {}
    if args.json:
        figures = {"python": platform.python_version(), "scores": [asdict(one) for one in scores], "typical_us": costs}
        print(json.dumps(figures))
    else:
        show(scores)
        print("\na typical exception: " + ", ".join(f"{name} {cost:.0f} us" for name, cost in costs.items()))
    return 1 if args.check and not (good(scores) and max(costs.values(), default=0.0) <= MICROSECONDS_MOST) else 0


def show(scores: list[Score]) -> None:
    label = ""
    for one in scores:
        if one.set != label:
            label = one.set
            print(f"\n{label}, {one.rows} errors")
            print(f"  {'':16} {'right':>6} {'in vain':>8} {'given up':>9} {'f1':>5} {'wait':>6} {'us':>7}")
        f1 = "" if one.f1 is None else f"{one.f1:.2f}"
        print(f"  {one.rule:16} {one.right:6.3f} {one.in_vain:8} {one.given_up:9} {f1:>5} {one.waits:>6} {one.us:7.1f}")


def good(scores: list[Score]) -> bool:
    mine = [one for one in scores if one.rule == "yaoki"]
    return all(one.right >= LEAST and not one.costly for one in mine)


if __name__ == "__main__":
    sys.exit(main())
