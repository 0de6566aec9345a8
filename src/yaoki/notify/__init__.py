"""
Somebody is told when a run needs them: `Runner(store, notify="slack://…")`, `yaoki worker --notify URL`.

Told of: a run that waits (with its question and what to type), one that is dead or capped, a scope whose breaker has
opened, a tool whose first attempts fail too often. At least once: what is to be told is in the store, written with the
change of state itself, and the same thing carries the same `id` when it is sent again after a death. Never in the way:
notices leave from threads of their own, and an address that hangs or fails is tried again within bounds, then noted
(`yaoki doctor`).
"""

from __future__ import annotations

from yaoki.notify._notice import Notice, Notify
from yaoki.notify._sinks import Sink, command, sink_of, webhook

__all__ = ["Notice", "Notify", "Sink", "command", "sink_of", "webhook"]
