"""What columns are called, in the data sets people have: by their names a text is told from a label."""

from collections.abc import Collection
from itertools import islice

MOST_LISTED, LONGEST_NAME = 8, 80

LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "quality", "sentiment", "answer", "gold_label"),
    *("intent", "emotion", "topic", "is_duplicate", "toxic", "spam", "stars", "rating", "score", "y"),
)
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "message", "tweet", "body", "document", "question"),
    *("title", "description", "headline", "utterance", "input"),
)
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
)
OTHER_NAMES = (
    *(
        "id",
        "idx",
        "index",
        "name",
        "date",
        "time",
        "url",
        "path",
        "file",
        "image",
        "filename",
        "user",
        "source",
    ),
    *(
        "instruction",
        "output",
        "prompt",
        "completion",
        "response",
        "chosen",
        "rejected",
        "messages",
        "tokens",
    ),
    *("tags", "split", "lang", "language", "key", "value", "type", "author", "words", "word", "tag"),
)
ALL_NAMES = frozenset(
    (*LABEL_NAMES, *TEXT_NAMES, *OTHER_NAMES, *(name for pair in PAIR_NAMES for name in pair))
)


def listed(names: Collection[str]) -> str:
    """Names of columns, classes or files in a row: the first of many, and the beginnings of long ones."""
    shown = (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        for name in islice(names, MOST_LISTED)
    )
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return ", ".join(f"“{name}”" for name in shown) + more
