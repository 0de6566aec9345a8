"""What programs that use Yaoki need in their own tests."""

from yaoki.testing._no_waits import NoWaits, no_waits

__all__ = ["NoWaits", "no_waits"]
