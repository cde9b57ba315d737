"""Every limit of the watchers, with its reason. Where there are two, the second lets a message go again.

Shares are 0 to 1, times seconds, sizes bytes.
"""

from typing import NamedTuple

from core.events import Phase

# Paging

PAGING_SLOWER = 5.0
"""A step so many times as long as the median of those before it is a slow one."""

PAGING_SLOW_STEPS = 2
"""So many slow steps in a row are told of: one alone may have another reason."""

PAGING_ALONE_SECONDS = 1.0
"""A step that lasts so long and is slow is told of alone, also before it is over."""

PAGING_CALM = 2.0
"""Below so many times the median a step is an ordinary one again."""

PAGING_CALM_STEPS = 5
"""After so many ordinary steps in a row the message is withdrawn."""

PAGING_FULL = 0.95
"""From this share of a ceiling on, memory is full."""

PAGING_SWAP_GROWTH = 64 << 20
"""Bytes by which swap grows within a slow step where the run pages."""

PAGING_STEPS_BEFORE = 5
"""Before so many steps nothing is known of how long one takes; the first of a run doesn't count at all."""

PAGING_STEPS_KNOWN = 50
"""The median is that of so many steps at most."""

# Throttling. What slows a Mac down is a fact of macOS: core.machine.heat has it.

THROTTLED_SECONDS = 30.0
"""The span judged: a chip that is held back for a second now and then loses nothing worth a message."""

THROTTLED_SAMPLES = 10
"""Fewer samples than this in the span say nothing."""

THROTTLED_SHARE = 0.8
"""From this share of the span on, a chip counts as held back."""

THROTTLED_SHARE_OVER = 0.3
"""Below this share it no longer does: heat comes and goes in waves."""

BUSY = 0.5
"""A processor less busy than this clocks down to save power, not because it has to."""

CLOCK_LOW = 0.75
"""Below this share of its limit a clock is low, where nobody tells why."""

CLOCK_CAPPED = 0.5
"""Below this share for want of power alone: a GPU at its cap is well below its highest clock by design."""

HOT = 85.0
"""Degrees Celsius from which a low clock has the heat for a reason, where nobody tells the reason."""

# Data that starves the device

STARVING_SHARE = 0.3
"""More than this share of the steps spent waiting for data is worth a remedy."""

STARVING_SHARE_OVER = 0.2
"""Below this share it isn't any longer."""

STARVING_SECONDS = 20.0
"""Seconds of steps that are judged: less may be a disk that woke up, or the beginning of an epoch."""

STARVING_STEPS = 10
"""Steps that are judged at least."""

FED = 0.9
"""A GPU as busy as this isn't starved, however long the loop waits: it has work left from before."""

MANY_WORKERS = 4
"""From so many workers on, more of them are no remedy."""

# The loss is no number

FINITE_AGAIN = 50
"""After so many finite losses in a row a single one that was none is past."""

# The loss shoots up


class Rise(NamedTuple):
    """A loss has risen where each of so many `steps` is so many `times` its lowest, and `more` than it by as much."""

    steps: int
    times: float
    more: float


EXPLODED = (Rise(20, 3.0, 1.0), Rise(5, 10.0, 5.0))
"""Either of them. Losses of batches that have nothing to do with each other don't pass by chance: at three times the
lowest one in three might, and twenty in a row do once in billions."""

EXPLODED_AT_ONCE = Rise(10, 10.0, 5.0)
"""Against the first loss, where no steps before were low: 0.7, then 155 at the second step and 925 at the fortieth.
No cross entropy of a model that learns is so far above its first one."""

EXPLODED_FEWEST = 8
"""Squared errors of fewer samples differ by as much without any explosion."""

EXPLODED_OVER = Rise(20, 2.0, 0.5)
"""It is over where their average is below this."""

EXPLODED_LOW_STEPS = 10
"""The lowest is an average of so many steps."""

# The loss doesn't move

STILL_STEPS = 100
"""The later half of the steps since the warm-up has so many at least."""

STILL_BLOCKS = 8
"""So many averages are needed to tell a trend from noise."""

STILL_CHANGE = 0.03
"""A loss that moved by less than this share, its uncertainty included, stands still."""

STILL_CHANGE_OVER = 0.06
"""One that moved by more than this is on its way again."""

STILL_UNFALLEN = 0.9
"""A loss above this share of what it began at has never fallen."""

STILL_SMALL = 0.3
"""A loss below this share of what it began at has fallen far enough to stand still."""

STILL_TINY = 0.05
"""So small a loss has nowhere left to fall."""

STILL_EVALUATIONS = 2
"""So many evaluations in a row without a better one are needed."""

BETTER = 0.01
"""A score counts as better from this share of difference on."""

STILL_LEFT = 0.2
"""With less than this share of the run left it isn't worth saying that it stands still."""

# No step

SILENT_SECONDS = 90.0
"""Without a step for so long, something may be stuck."""

SILENT_STEPS = 5.0
"""Or as long as so many steps, where those take longer."""

SILENT_FIRST = 2.0
"""The first step may take so many times as long: kernels are chosen, caches are empty. So may the second."""

SILENT_PHASES = {
    None: 180.0,  # libraries are imported, from a disk that may be slow
    Phase.LOADING_DATA: 180.0,
    Phase.LOADING_MODEL: 600.0,  # it may come from the Hub, over a line that stalls
    Phase.TOKENIZING: 180.0,
    Phase.COMPILING: 180.0,
    Phase.EVALUATING: 180.0,
    Phase.SAVING: 180.0,  # a full cache is flushed to a slow disk
}
"""In these nothing is told for as long as they take. Without a word and without work for so long, they may be stuck."""

IDLE = 0.02
"""A process that uses less than this share of one core does nothing."""

SLEPT_SECONDS = 15.0
"""Nobody looks for so long unless the computer slept; that time is nobody's silence."""

# Disk

DISK_FREE = 2 << 30
"""Below so much free space operating systems begin to misbehave."""

DISK_CHECKPOINTS = 2.0
"""And a checkpoint is written beside the one it replaces, so room for two."""

DISK_OVER = 1.25
"""With so many times the limit free again, the message goes."""

# Battery

BATTERY_LOW = 0.3
"""Below this share a battery under full load lasts well under an hour."""

BATTERY_OVER = 0.35
"""And above this one it isn't low any more."""

UNPLUGGED_SECONDS = 10.0
"""A plug that is moved from one socket to the next is out for less."""
