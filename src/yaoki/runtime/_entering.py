"""Attempts that may be refused as they begin: by their scope, or by the budget of the run's group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import Fenced, JournalError
from yaoki.policy import Admission
from yaoki.runtime._effects import Barrier
from yaoki.runtime._groups import admit_in_group, charge_for, counted

if TYPE_CHECKING:
    from yaoki.records import Begin, Group
    from yaoki.runtime._live import Live
    from yaoki.runtime._step import Step

__all__ = ["enter_inline"]

_BARRED = Admission(wait="scope", text="its scope is not to be used now")


def enter_inline(live: Live, step: Step, begin: Begin, barrier: Barrier, *, clear: bool = False) -> Admission | None:
    """
    Append a begin at once if its scope and its run's group let it, and fold it; else return why not.

    A probe's place and room in the group are taken together, in the transaction of the begin, or not at all. What
    was folded before must have been appended. One that is known to be `clear`, of a run in no group, is not asked
    about again here: refused, its ladder asks.

    Raises:
        JournalError: It could not be written; the run is as it was and nothing more is promised.
        Fenced: Another process took the run.
    """
    if live.detached:
        raise Fenced(f"run {live.name} is no longer driven here")
    seq = live.history.seq + 1
    written = False
    try:
        refused = _entered(live, step, begin, seq, clear=clear)
        if refused is not None:
            return refused
        live.note(step.key, begin)
        written = True
        if live.group:
            live.counted = counted(live.history)
        if barrier is Barrier.SYNCED:
            live.journal.sync()
        else:
            live.journal.mark()
    except JournalError as error:
        live.broken = error
        raise
    except BaseException:
        # Fenced; or Ctrl-C between writing and folding: no more steps are written, as after a death, and what is
        # written of its end comes after the begin that may be in the store.
        if not written:
            live.history.seq = seq
            live.detached = True
        raise
    if live.observers:
        live.show(step.key, begin)
    return None


def _entered(live: Live, step: Step, begin: Begin, seq: int, *, clear: bool) -> Admission | None:
    if not live.group:
        if (clear or live.scopes.clear(step)) and live.scopes.enter_clear(step, begin, seq):
            return None
        if clear:
            return _BARRED
    full: list[Admission] = []

    def admits(group: Group) -> bool:
        admission = admit_in_group(group, begin, live.declared)
        if not admission.go:
            full.append(admission)
        return admission.go

    # What undoes others is counted, and never refused: a group's budget must not keep a run from tidying up.
    asked = live.group and "!undo." not in step.key
    taken = live.journal.append_ruled(
        live.run,
        live.epoch,
        seq,
        [(step.key, begin)],
        change=live.scopes.places(step, begin),
        charge=charge_for(live, begin) if live.group else None,
        admits=admits if asked else None,
    )
    if taken is None:
        return full[0] if full else _BARRED
    live.scopes.begun(step)
    return None
