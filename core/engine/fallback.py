"""Names the operators that MPS lacks and torch computes on the CPU instead."""

import re
import warnings
from typing import TextIO

import torch

from core.engine.reporter import Reporter

# torch's words: "The operator 'aten::x' is not currently supported on the MPS backend and will fall back to run on the
# CPU. This may have performance implications."
FALLBACK = re.compile(r"The operator '(?P<operator>[^']+)' is not currently supported on the MPS backend")


def report_fallbacks(reporter: Reporter) -> list[str]:
    """Turn torch's warning about each such operator into a message of the run; other warnings go on to the log.

    torch warns of the first operator only, unless told to warn always; each is reported once.

    Returns:
        The operators so far; the list grows as more of them fall back.
    """
    torch.set_warn_always(True)
    show = warnings.showwarning
    told: list[str] = []

    def listen(  # noqa: PLR0917 - the signature of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        found = FALLBACK.search(str(message))
        if found is None:
            show(message, category, filename, lineno, file, line)
        elif (operator := found["operator"]) not in told:
            told.append(operator)
            reporter.warn(
                f"fallback-{operator}",
                f"{operator} runs on the CPU",
                "Apple's MPS lacks this operator, so its data goes to the CPU and back at every step: "
                "slower, not wrong.",
            )

    warnings.showwarning = listen
    return told
