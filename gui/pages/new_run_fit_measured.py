"""What dry runs measured, and what follows: when a run is done, its steps within some hours, what a remedy brings."""

from dataclasses import dataclass

from core.memory.forecast import Measurement


@dataclass(frozen=True)
class Measured:
    """A measurement, and when it was made, in unix seconds."""

    measurement: Measurement
    at: float

    @property
    def ran_out(self) -> bool:
        """Whether memory ran out, so that the figures are those of that moment."""
        return bool(self.measurement.out_of_memory)

    @property
    def pace(self) -> float | None:
        """Seconds a step takes on the average over the whole run; None: not measured."""
        found = self.measurement
        if found.total_steps and found.run_seconds is not None:
            return (found.run_seconds - found.compile_seconds) / found.total_steps
        return found.step_seconds

    def run_seconds(self, steps: int | None) -> float | None:
        """What a run of so many steps takes, in seconds, compiling included; None: not known.

        Args:
            steps: The steps; None: as many as the dry run counted.
        """
        if steps is None or self.pace is None:
            return self.measurement.run_seconds
        return self.measurement.compile_seconds + steps * self.pace

    def steps_within(self, hours: float) -> int | None:
        """How many steps can be made in so many hours, at least one; None: no step was measured."""
        if not self.pace:
            return None
        return max(1, int((3600 * hours - self.measurement.compile_seconds) / self.pace))


@dataclass(frozen=True)
class Gain:
    """What a remedy was measured to bring.

    `takes` is bytes with it, `saves` how many fewer than without it, `slower` the factor by which a step takes longer;
    None where memory ran out without it, so that nobody knows. `ran_out` tells that it ran out with it, too.
    """

    takes: int
    saves: int | None
    slower: float | None
    ran_out: bool


def gain(without: Measured | None, after: Measured) -> Gain:
    """What a remedy brings.

    Args:
        without: What was measured without it; None: nothing.
        after: What was measured with it.
    """
    found = after.measurement
    known = without.measurement if without is not None and not without.ran_out else None
    paces = (found.step_seconds, known.step_seconds if known else None)
    return Gain(
        takes=found.peak,
        saves=known.peak - found.peak if known else None,
        slower=paces[0] / paces[1] if paces[0] and paces[1] else None,
        ran_out=after.ran_out,
    )
