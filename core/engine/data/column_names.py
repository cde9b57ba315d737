"""What columns are called, in the data sets people have: by their names a text is told from a label."""

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
