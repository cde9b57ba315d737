"""Looks at data that never was, one for each task: for tests of the window, and for screenshots."""

import io
import math
from typing import Any

from PIL import Image

from core.base.errors import Fix
from core.base.formats import counted
from core.base.language import _
from core.jobs.inspect import (
    DataColumn,
    DataColumnKind,
    DataFinding,
    DataReport,
    FindingLevel,
    Lengths,
    Seen,
    SeenPart,
)
from core.options.choices import Speaker, Task

INSTRUCTIONS = (
    ("Name three primary colours.", "", "Red, blue and yellow."),
    ("Give a synonym of the word.", "quick", "Fast, swift, rapid."),
    ("Describe how bread is baked.", "", "Flour, water, salt and yeast are kneaded, left to rise and baked."),
    ("Is the sentence right?", "He go to school.", "No. It should be: He goes to school."),
    (
        "Write a haiku about rain.",
        "",
        "Grey roofs drum softly, / the street turns into a stream, / shoes wait by the door.",
    ),
)
ANSWERED = (
    ("How do I boil an egg?", "Eight minutes in boiling water, then into cold water.", "Just microwave it."),
    ("Who wrote Faust?", "Goethe, between 1772 and 1831.", "I think it was Schiller."),
    ("Is 51 a prime?", "No: 51 is 3 times 17.", "Yes, 51 is prime."),
)
PARAPHRASES = (
    ("He said the plan was sound.", "The plan, he said, was sound.", "1"),
    ("Sales rose 4 % in May.", "In May sales fell by 4 %.", "0"),
    ("The ship left at dawn.", "At dawn the ship left port.", "1"),
)
NAMED = (
    ("Ada Lovelace was born in London .", "B-PER I-PER O O O B-LOC O"),
    ("The Elbe flows through Dresden .", "O B-LOC O O B-LOC O"),
)
PROSE = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"
SCORES = tuple((text, str(place % 5 + 0.5)) for place, (text, _, _) in enumerate(PARAPHRASES * 60))

CHAT_FINDINGS = (
    DataFinding(
        code="unknown-role",
        level=FindingLevel.PROBLEM,
        message=_("{rows}: a message with the unknown role “{detail}”.").format(
            rows=counted(2, "row"), detail="bob"
        ),
        count=2,
        rows=(4, 17),
        fixes=(
            Fix(
                _("Read “{name}” as {role}").format(name="bob", role=Speaker.ASSISTANT.in_words),
                {"data.roles": {"bob": "assistant"}},
            ),
            Fix(
                _("Read “{name}” as {role}").format(name="bob", role=Speaker.USER.in_words),
                {"data.roles": {"bob": "user"}},
            ),
        ),
    ),
    DataFinding(
        code="empty-answer",
        level=FindingLevel.PROBLEM,
        message=_("{rows}: an empty answer, or none.").format(rows=counted(3, "row")),
        count=3,
        rows=(61, 208, 764),
        fixes=(Fix(_("Leave out all examples that can't be used")),),
    ),
    DataFinding(
        code="cut-answer",
        level=FindingLevel.WARNING,
        message=_("{rows}: an answer that is truncated at {detail} tokens.").format(
            rows=counted(7, "row"), detail=512
        ),
        count=7,
        rows=(12, 88, 130, 401, 402, 655, 900),
        fixes=(Fix(_("Use {count:,} tokens").format(count=640), {"data.max_length": 640}),),
    ),
    DataFinding(
        code="duplicates",
        level=FindingLevel.WARNING,
        message=_("{rows}: the same as an earlier one.").format(rows=counted(14, "row")),
        count=14,
        rows=(44, 45, 90, 91, 92),
    ),
)


def report_for(task: Task, source: str) -> DataReport:
    """A look at the data of a task."""
    return MAKERS[task](source)


def _chat(source: str) -> DataReport:
    return _table(
        *(source, "JSON", 999, ("instruction", "input", "output"), INSTRUCTIONS),
        shape="instructions with answers",
        reading={"encoding": "UTF-8"},
        columns_by_role={"prompt": "instruction", "input": "input", "answer": "output"},
        lengths=bell(middle=96, spread=0.55, longest=612, samples=999, limit=512, cut=7),
        seen=tuple(_turn(row, *texts) for row, texts in enumerate(INSTRUCTIONS, 1)),
        train_rows=899,
        eval_rows=100,
        findings=CHAT_FINDINGS,
    )


def _preference(source: str) -> DataReport:
    return _table(
        *(source, "JSON", 300, ("question", "chosen", "rejected"), ANSWERED),
        shape="pairs of answers",
        reading={"encoding": "UTF-8"},
        columns_by_role={"prompt": "question", "chosen": "chosen", "rejected": "rejected"},
        lengths=bell(middle=210, spread=0.6, longest=1480, samples=300, limit=1024, cut=4),
        seen=tuple(_pair(row, *texts) for row, texts in enumerate(ANSWERED, 1)),
        train_rows=270,
        eval_rows=30,
    )


def _pairs(source: str) -> DataReport:
    head = {
        "encoding": _("UTF-8 with a byte order mark"),
        "delimiter": _("delimiter tab"),
        "quoting": _("no quoting"),
    }
    return _table(
        *(source, "TSV", 4076, ("sentence1", "sentence2", "same"), PARAPHRASES),
        reading={**head, "header": _("header in the first row")},
        preview_rows=tuple(range(2, 202)),
        text_columns=("sentence1", "sentence2"),
        label_column="same",
        labels={"1": 2753, "0": 1323},
        lengths=bell(middle=52, spread=0.33, longest=104, samples=4076, limit=96, cut=3),
        seen=tuple(
            Seen(
                row=row,
                parts=(SeenPart(f"[CLS] {first.lower()} [SEP] {second.lower()} [SEP]"),),
                tokens=18,
                label=label,
            )
            for row, (first, second, label) in enumerate(PARAPHRASES, 2)
        ),
        train_rows=3668,
        eval_rows=408,
        findings=(CHAT_FINDINGS[3],),
    )


def _scores(source: str) -> DataReport:
    return _table(
        *(source, "CSV", 5749, ("text", "score"), SCORES),
        reading={"encoding": "Latin-1", "delimiter": _("delimiter semicolon"), "header": _("no header")},
        text_columns=("text",),
        label_column="score",
        lengths=bell(middle=21, spread=0.4, longest=77, samples=5749, limit=128, cut=0),
    )


def _words(source: str) -> DataReport:
    return _table(
        *(source, "CoNLL", 120, ("tokens", "ner_tags"), NAMED),
        text_columns=("tokens",),
        label_column="ner_tags",
        labels={"O": 480, "B-LOC": 180, "B-PER": 60, "I-PER": 60},
    )


def _prose(source: str) -> DataReport:
    return _table(
        *(source, "text", 1, ("text",), ((PROSE,),)),
        reading={"encoding": "UTF-8"},
        text_columns=("text",),
        seen=(Seen(row=1, parts=(SeenPart(PROSE * 4, trained=True),), tokens=256),),
        train_rows=1764,
        eval_rows=196,
    )


def _images(source: str) -> DataReport:
    return DataReport(
        source=source,
        format="a folder a class",
        rows=1200,
        labels={"cat": 480, "dog": 420, "horse": 300},
        seen=tuple(
            Seen(row=row, label=label, original=_picture(320, 200, row), images=(_picture(224, 224, row),))
            for row, label in enumerate(("cat", "dog", "horse"), 1)
        ),
        train_rows=1080,
        eval_rows=120,
    )


MAKERS = {
    Task.TEXT_CLASSIFICATION: _pairs,
    Task.TEXT_REGRESSION: _scores,
    Task.TOKEN_CLASSIFICATION: _words,
    Task.CAUSAL_LM: _prose,
    Task.CHAT: _chat,
    Task.PREFERENCE: _preference,
    Task.IMAGE_CLASSIFICATION: _images,
}


def bell(*, middle: int, spread: float, longest: int, samples: int, limit: int, cut: int) -> Lengths:
    """Lengths spread around a middle, more of them short."""
    step = max(1, -(-longest // 36))
    edges = tuple(range(0, step * 37, step))
    heights = [
        math.exp(-((math.log((edge + step / 2) / middle) / spread) ** 2)) if edge < longest else 0.0
        for edge in edges[:-1]
    ]
    share = (samples - cut) / sum(heights)
    counts = [
        round(share * height) if edge < limit else 0 for edge, height in zip(edges, heights, strict=False)
    ]
    for place in range(cut):
        counts[min(len(counts), -(-longest // step)) - 1 - place % 4] += 1
    counts[counts.index(max(counts))] += samples - sum(counts)
    return Lengths(
        unit="tokens", edges=edges, counts=tuple(counts), longest=longest, median=middle, limit=limit, cut=cut
    )


def _picture(width: int, height: int, seed: int) -> bytes:
    """Soft colours, as a PNG file."""
    bands = (
        Image.linear_gradient("L").rotate(90).point(lambda shade: 70 + 50 * (seed % 3) + shade * 60 // 255),
        Image.linear_gradient("L").point(lambda shade: 150 - shade * 60 // 255),
        Image.linear_gradient("L").point(lambda shade: 120 + shade // 4),
    )
    file = io.BytesIO()
    Image.merge("RGB", bands).resize((width, height)).save(file, "PNG")
    return file.getvalue()


def _table(
    source: str, kind: str, rows: int, names: tuple[str, ...], texts: tuple[tuple[str, ...], ...], **more: Any
) -> DataReport:
    """A table whose preview of 200 rows, or of all where there are fewer, repeats a few texts."""
    preview = tuple(texts[row % len(texts)] for row in range(min(rows, 200)))
    columns = tuple(
        DataColumn(name=name, kind=DataColumnKind.TEXT, distinct=len(set(cells)), empty=0, examples=cells[:1])
        for name, cells in zip(names, zip(*preview, strict=True), strict=True)
    )
    return DataReport(source=source, format=kind, rows=rows, columns=columns, preview=preview, **more)


def _turn(row: int, prompt: str, material: str, answer: str) -> Seen:
    asked = "\n\n".join(part for part in (prompt, material) if part)
    head = f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"
    parts = (SeenPart(head), SeenPart(f"{answer}<|im_end|>", trained=True), SeenPart("\n"))
    return Seen(row=row, parts=parts, tokens=24 + len(head) // 5, is_cut=row == 3)


def _pair(row: int, prompt: str, better: str, worse: str) -> Seen:
    head = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    first, second = (
        (SeenPart(head), SeenPart(f"{text}<|im_end|>", trained=True)) for text in (better, worse)
    )
    return Seen(row=row, parts=first, rejected=second, tokens=61)
