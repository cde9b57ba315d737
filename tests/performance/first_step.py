"""How long from the click on Start to the end of the first step, beside a plain Trainer script's own start.

    .venv/bin/python tests/performance/first_step.py [--rounds 5]

Hone's clock starts when a run that is written down is started (a keeper, then an engine); the script's, which is
`plain_digits.py`, when its process is. Both in fresh processes by turns, after one round that isn't
counted: a warm disk. Prints both by rounds and the median of the rounds' ratios. Goal: at most 1.1 times the script's.
The exit status is 1 where it is missed.
"""

import statistics
import sys

from beside_plain import DIGITS, Told, by_turns, compared, read_arguments

from tests.performance.suite.figures import figure, hand_over, ratio_at_most

GOAL = 1.1


def main() -> int:
    """Measure by turns and print the table; 1 where the goal is missed."""
    asked = read_arguments(__doc__, rounds=5, steps=2)
    asked.rounds += 1
    asked.eval_samples = 32  # what comes after the first step takes less time so
    pairs = list(by_turns(asked))[1:]
    starts = compared(pairs, lambda told: told.first_step)
    ratios = [hone / plain for hone, plain in starts]
    hone, plain = (statistics.median(column) for column in zip(*starts, strict=True))
    ratio, spread = (
        statistics.median(ratios),
        (min(hone for hone, _ in starts), max(hone for hone, _ in starts)),
    )
    print(f"\n{DIGITS.name}: from the click to the end of the first step, {len(pairs)} rounds by turns\n")
    print("| round | Hone, s | plain script, s | ratio | Hone's phases begin at, s |\n|---|---|---|---|---|")
    for number, (ours, theirs) in enumerate(pairs, start=1):
        share = ours.first_step / theirs.first_step
        print(
            f"| {number} | {ours.first_step:.2f} | {theirs.first_step:.2f} | {share:.3f} | {phases(ours)} |"
        )
    print(f"\nratio, median of the rounds: {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}, goal {GOAL})")
    goal = ratio_at_most(GOAL)
    first = figure("first step", hone, "s", peer=plain, ratio=ratio, spread=spread, goal=goal)
    hand_over(asked.json, [first])
    return 0 if first.reached else 1


def phases(told: Told) -> str:
    return ", ".join(f"{name} {begun - told.asked:.2f}" for name, begun in told.phases.items())


if __name__ == "__main__":
    sys.exit(main())
