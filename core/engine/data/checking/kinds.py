"""What can be found in rows of texts with answers and lets a run pass; what stops it, whoever reads them says."""

from core.findings import FindingKind, FindingLevel

_WARNING = FindingLevel.WARNING

EMPTY = FindingKind("empty", _WARNING, "{rows} {have} no “{detail}” and {are} left out.")
DUPLICATES = FindingKind("duplicates", _WARNING, "{rows} {are} the same as an earlier one.")
CONTRADICTIONS = FindingKind(
    "contradictions",
    _WARNING,
    "{rows} {have} the text of an earlier one and another answer: one of the two must be wrong.",
)
IN_BOTH = FindingKind(
    "in-both",
    _WARNING,
    "{rows} of the evaluation data {are} trained on, too: the result will look better than it is.",
    "Remove them from one of the two",
)
FEW_ROWS = FindingKind(
    "few-rows", _WARNING, "There {are} only {rows} to learn from; a model takes some hundred."
)
LITTLE_TEXT = FindingKind(
    "little-text",
    _WARNING,
    "{detail}: there is nearly nothing to learn from. A style takes some hundred thousand.",
)
RARE_LABEL = FindingKind("rare-label", _WARNING, "{detail}: too few to learn it from.")
UNEVEN_LABELS = FindingKind(
    "uneven-labels",
    _WARNING,
    "{detail}: the model may seldom give the rarer answers. Look at F1, which heeds them.",
)
SIMILAR_LABELS = FindingKind(
    "similar-labels",
    _WARNING,
    "{detail} differ in capitals or spaces only, and are learned as different labels.",
    "Write them alike where they mean the same",
)
TEXTS_CUT = FindingKind("texts-cut", _WARNING, "{rows} {are} cut off at {detail}.")
LINES_LEFT_OUT = FindingKind("lines-left-out", _WARNING, "{detail}")
OTHER_ENCODING = FindingKind("other-encoding", _WARNING, "{detail}")
