"""The fake clock that users have too, by its insides."""

from yaoki.testing._clock import START_MS, FakeClock, FakeTimeLoop

__all__ = ["START_MS", "FakeClock", "FakeTimeLoop"]
