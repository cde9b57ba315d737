"""First lines of the frozen program."""

import multiprocessing
import sys

REFUSED = 2


def _is_meant_for_python(arguments: list[str]) -> bool:
    """Whether a library started this program as if it were a Python interpreter."""
    return bool(arguments) and (arguments[0] in ("-c", "-m") or arguments[0].endswith((".py", ".pyc")))


def main() -> int:
    """Hand over to Hone, unless a library mistook this program for Python."""
    multiprocessing.freeze_support()
    if _is_meant_for_python(sys.argv[1:]):
        # Opening a second window would be the worst answer: some libraries start sys.executable with -c or -m.
        print(f"This is Hone, not a Python interpreter; refused: {' '.join(sys.argv[1:])}", file=sys.stderr)
        return REFUSED
    from gui.__main__ import main as hone

    return hone()


if __name__ == "__main__":
    sys.exit(main())
