"""A device that is told of work in no time and does it later, on a clock of its own."""


class AsynchronousDevice:
    """Takes the place of CUDA and of the module `time`. `now` is this process's clock in seconds, set it freely."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits = 0
        self._done_at = 0.0

    def clock(self) -> float:
        """What the clock says."""
        return self.now

    perf_counter = monotonic = clock

    def compute(self, seconds: float, told_in: float) -> None:
        """Tell it of work: `told_in` seconds of this process, then `seconds` of the device after all else it has."""
        self.now += told_in
        self._done_at = max(self._done_at, self.now) + seconds

    def wait(self) -> None:
        """Wait until it has done all it was told of."""
        self.waits += 1
        self.now = max(self.now, self._done_at)
