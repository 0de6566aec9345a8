"""How often a call is made again, by its effect kind and what its failure says (SEMANTICS sections 3 and 4)."""

from __future__ import annotations

import pytest

from tests.runtime.errors import not_found, read_timeout, refused, reset, status
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, Local, Retry, State as _State  # noqa: F401
