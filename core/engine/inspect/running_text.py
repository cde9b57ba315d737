"""Texts to go on writing: files of running text, or a column of texts in a table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from core.base import settings
from core.base.errors import DataError
from core.engine.data import checks
from core.engine.data.checks import few_rows, offered
from core.engine.data.columns import Guess
from core.engine.data.labelled_texts import RowReader
from core.engine.data.running_text import (
    NOTHING_HELD_OUT,
    Blocks,
    Documents,
    PlainText,
    load_running_text,
    make_blocks,
    pieces,
    read_running,
    text_column,
    too_short,
)
from core.engine.data.splits import held_out_of, texts_of
from core.engine.data.tables import Table
from core.engine.data.token_cache import TokenCache, tokenizer_print
from core.engine.inspect import report as tables
from core.engine.inspect.preview import (
    CHARACTERS,
    TOKENS,
    AtHand,
    decoded,
    estimate_rows,
    histogram,
    stretches,
    token_lengths,
    tokenizer_at_hand,
)
from core.engine.inspect.report import SHOWN, Gathered, Stages, Tell, gather, repeats, without_repeats
from core.options import RunOptions
from core.services.inspect import DataReport, Finding, Lengths, Seen, SeenPart, in_order

COUNTED_CHARACTERS = 8 << 20
"""Texts up to this length are cut into blocks as a run cuts them, so that their number is known."""
FEW_CHARACTERS = 1000
"""Of a text shorter than this next to nothing can be learned."""
SHOWN_CHARACTERS = 1000
"""Of a block, where no tokenizer says how long it is."""
PER_TOKEN = 12
"""Characters that a token hardly ever has more of."""


@dataclass(frozen=True)
class _Looked:
    """What is in a source: fields of the report, the beginning of its texts, and how long they are together.

    `texts` gives some of them, evenly chosen; `gathered` are the rows of a table.
    """

    report: DataReport
    beginning: Documents
    characters: int
    texts: Callable[[], list[str]] = list
    gathered: Gathered | None = None


def inspect_running_text(options: RunOptions, stages: Stages) -> DataReport:
    """Look into texts to go on writing.

    Raises:
        DataError: They can't be read at all.
    """
    data = options.data
    with stages.stage(0.0) as tell:
        found = read_running(texts_of(data.train, data.train_split), data.text_columns, tell)
    with stages.stage(0.3) as tell:
        looked = _of_table(options, found, tell) if isinstance(found, Table) else _of_texts(options, found)
    report = looked.report
    if report.problems:
        return report
    at_hand = tokenizer_at_hand(options, lambda: _training_texts(options, looked))
    with stages.stage(0.3) as tell:
        if looked.gathered:
            report = _with(report, lengths=_lengths(looked.gathered, at_hand, tell))
        counted = _counted(options, looked, at_hand)
    counted["problems"] = (*report.problems, *counted.get("problems", ()))
    counted["notes"] = tuple(dict.fromkeys((*report.notes, *counted.get("notes", ()))))
    report = _with(report, **counted)
    seen = tuple(islice(_seen(looked.beginning, at_hand), SHOWN))
    return _with(report, seen=seen)


def _with(report: DataReport, **fields: Any) -> DataReport:
    return msgspec.structs.replace(report, **fields)


def _of_texts(options: RunOptions, found: PlainText) -> _Looked:
    """Running text in files."""
    texts = "1 text" if len(found.documents) == 1 else f"{len(found.documents):,} texts"
    report = DataReport(
        source=options.data.train,
        format=found.format,
        rows=len(found.documents),
        reading=dict(found.reading),
        findings=(*tables.note_findings(found.notes), *_little(found.characters)),
        notes=(f"{texts} of {found.characters:,} characters.", *tables.other_notes(found.notes)),
    )
    beginning = pa.array([document.content for document in found.documents[:SHOWN]], pa.large_string())
    contents = [document.content for document in found.documents]
    return _Looked(
        report, Documents(pa.chunked_array([beginning])), found.characters, lambda: stretches(contents)
    )


def _little(characters: int) -> Iterator[Finding]:
    if characters < FEW_CHARACTERS:
        kind = checks.LITTLE_TEXT
        counted = (
            "The text is 1 character long"
            if characters == 1
            else f"The text is {characters:,} characters long"
        )
        yield Finding(code=kind.code, level=kind.level, message=kind.message(1, detail=counted), count=1)


def _training_texts(options: RunOptions, looked: _Looked) -> list[str]:
    """What the tokenizer of a model from scratch is trained on; of a long text some of it."""
    if looked.characters > COUNTED_CHARACTERS:
        return looked.texts()
    try:
        return list(load_running_text(options).train.pieces())
    except DataError:  # told where rows are counted
        return looked.texts()


def _of_table(options: RunOptions, table: Table, tell: Tell) -> _Looked:
    """A column of texts."""
    report = DataReport(
        source=options.data.train, **tables.about_table(table), notes=tables.other_notes(table.notes)
    )
    try:
        name = text_column(table, options.data.text_columns)
    except DataError as error:
        problem = tables.as_problem("data.text_columns", error)
        return _Looked(_with(report, problems=(problem,)), Documents(pa.chunked_array([], pa.string())), 0)
    column, skip = Guess((name,), None), options.data.skip_bad_rows
    reader = RowReader(table, column, skip=skip, progress=lambda rows: tell(rows, table.rows.num_rows))
    gathered = gather(table, reader.texts())
    found = reader.tally.findings()
    findings = [*tables.note_findings(table.notes), *(offered(found) if gathered.usable else found)]
    findings += repeats(gathered, options.data)
    if options.data.drop_duplicates:
        gathered = without_repeats(gathered, lambda: RowReader(table, column, skip=skip).texts())
    findings += few_rows(gathered.usable, table.row_word)
    texts = [sample.inputs[0] for sample in gathered.first]
    report = _with(
        report,
        text_columns=(name,),
        findings=in_order(findings),
        notes=(*report.notes, *gathered.sampled_note),
    )
    beginning = pa.chunked_array([pa.array(texts, pa.large_string())])
    evenly = gathered.evenly
    return _Looked(
        report,
        Documents(beginning),
        gathered.characters,
        lambda: [sample.inputs[0] for sample in evenly],
        gathered,
    )


def _lengths(gathered: Gathered, at_hand: AtHand | None, tell: Tell) -> Lengths | None:
    """How long the texts are; they aren't cut off, as the next one follows in the same block."""
    samples = gathered.evenly
    if at_hand is None:
        return histogram([len(sample.inputs[0]) for sample in samples], CHARACTERS)
    return histogram(token_lengths(samples, at_hand.tokenizer, tell), TOKENS)


def _counted(options: RunOptions, looked: _Looked, at_hand: AtHand | None) -> dict[str, Any]:
    """What a run would count, by the functions it uses, as fields of the report; and what it stops on."""
    apart = held_out_of(options.data)
    if looked.characters > COUNTED_CHARACTERS:
        if at_hand is None:
            return {}
        about = estimate_rows(options, looked.texts(), looked.characters, at_hand)
        return {"train_rows": about.train, "eval_rows": about.eval, "notes": (about.note, *at_hand.notes)}
    try:
        text = load_running_text(options)
    except DataError as error:
        return {"problems": (tables.as_problem(apart.option if apart else "data.train", error),)}
    if at_hand is None:
        return {"notes": tables.other_notes(text.notes)}
    train = _blocks(text.train, at_hand)
    if train is None:
        return {"problems": (tables.as_problem("data.train", too_short(options.data.train)),)}
    held_out = None if text.eval is None else _blocks(text.eval, at_hand)
    notes = text.notes if text.eval is None or held_out is not None else (*text.notes, NOTHING_HELD_OUT)
    return {
        "train_rows": _count_at_most(len(train.rows), options.data.max_train_samples),
        "eval_rows": 0
        if held_out is None
        else _count_at_most(len(held_out.rows), options.data.max_eval_samples),
        "notes": (*tables.other_notes(notes), *at_hand.notes),
    }


def _count_at_most(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


def _blocks(documents: Documents, at_hand: AtHand) -> Blocks | None:
    """The blocks of a run; their tokens are kept for it."""
    cache = TokenCache(settings.home() / "cache" / "tokens")
    return make_blocks(
        documents, at_hand.tokenizer, at_hand.length, cache, tokenizer_print(at_hand.tokenizer)
    )


def _seen(beginning: Documents, at_hand: AtHand | None) -> Iterator[Seen]:
    """The first blocks; all of each is learned."""
    if at_hand is None:
        shown = (piece for text in beginning for piece in pieces(text, SHOWN_CHARACTERS))
        yield from (
            Seen(row=row, parts=(SeenPart(piece, trained=True),)) for row, piece in enumerate(shown, 1)
        )
        return
    room = SHOWN * at_hand.length * PER_TOKEN
    some: list[str] = []
    for text in beginning:
        some.append(text[:room])
        room -= len(some[-1])
        if room <= 0:
            break
    documents = Documents(pa.chunked_array([pa.array(some, pa.large_string())]))
    cache = TokenCache(settings.home() / "cache" / "tokens")
    blocks = make_blocks(documents, at_hand.tokenizer, at_hand.length, cache, "")
    for row, block in enumerate(blocks.rows if blocks else (), 1):
        ids = block["input_ids"].tolist()
        yield Seen(row=row, parts=(SeenPart(decoded(at_hand.tokenizer, ids), trained=True),), tokens=len(ids))
