"""Does Hone cost anything beside a plain Trainer script? The same run both ways, in turn: steps and losses.

    .venv/bin/python tests/performance/plain_trainer.py [--rounds 5] [--steps 150] [--eval-samples 32]

Hone trains as it always does, watched and kept; the script is `plain_digits.py`, without Hone. Each
round starts both in fresh processes, one after the other. A step is measured from the end of the one before, with all
that lies between, evaluations too, which the median leaves aside. Prints the median step of both by rounds, and the
median of the rounds' ratios with its spread. Goal: at least 0.99 of the script's pace, and every loss the same to the
bit. The exit status is 1 where it is missed.
"""

import statistics
import sys

from beside_plain import DIGITS, Told, by_turns, compared, read_arguments

from tests.performance.suite.figures import at_most, figure, hand_over, ratio_at_least

GOAL = 0.99
WARM_STEPS = 3


def main() -> int:
    """Measure by turns and print the table; 1 where the goal is missed."""
    asked = read_arguments(__doc__, rounds=5, steps=150)
    pairs = list(by_turns(asked))
    steps = compared(pairs, middle_step)
    ratios = [plain / hone for hone, plain in steps]
    hone, plain = (statistics.median(column) for column in zip(*steps, strict=True))
    ratio, apart = statistics.median(ratios), max(losses_apart(*pair) for pair in pairs)
    print(f"\n{DIGITS.name}, {asked.steps} steps, {asked.rounds} rounds by turns\n")
    print("| round | Hone's median step, ms | plain script's, ms | ratio of paces |\n|---|---|---|---|")
    for number, (ours, theirs) in enumerate(steps, start=1):
        print(f"| {number} | {1000 * ours:.2f} | {1000 * theirs:.2f} | {theirs / ours:.4f} |")
    print(f"\nratio, median of the rounds: {ratio:.4f} ({min(ratios):.3f} to {max(ratios):.3f}, goal {GOAL})")
    print(f"largest difference of a step's loss: {apart:g} (goal 0)")
    rates = [1 / ours for ours, _ in steps]
    spread, goal = (min(rates), max(rates)), ratio_at_least(GOAL)
    figures = [
        figure("steps a second", 1 / hone, peer=1 / plain, ratio=ratio, spread=spread, goal=goal),
        figure("largest difference of a step's loss", apart, goal=at_most(0.0)),
    ]
    hand_over(asked.json, figures)
    return int(any(one.reached is False for one in figures))


def middle_step(told: Told) -> float:
    """Seconds of the median step, the first ones left out."""
    return statistics.median(told.steps[WARM_STEPS:])


def losses_apart(hone: Told, plain: Told) -> float:
    pairs = zip(hone.losses, plain.losses, strict=True)
    return max(float("inf") if ours is None else abs(ours - theirs) for ours, theirs in pairs)


if __name__ == "__main__":
    sys.exit(main())
