"""A clock that stands still until it is told the time."""


class FakeClock:
    """Takes the place of the module `time`. Set `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def thread_time(self) -> float:
        """All time that passes is spent computing."""
        return self.now

    def monotonic(self) -> float:
        return self.now
