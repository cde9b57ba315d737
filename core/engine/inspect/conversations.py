"""Report on conversations and pairs of answers, by a run's own pass over them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from core.base.errors import DataError
from core.base.formats import paragraph
from core.base.language import _
from core.engine.data.chat_samples import ANSWERS_CUT, ANSWERS_GONE, TokenizedTable, tokenize_table
from core.engine.data.chat_tokens import (
    WITH_TEMPLATE,
    Renderer,
    TemplateRefused,
    preview_row,
    set_template,
)
from core.engine.data.checks import few_rows, longer, offered
from core.engine.data.conversations import ChatRow, Message, ShapeKind
from core.engine.data.findings import FindingKind
from core.engine.data.running_text import all_pieces, texts_of_conversations
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_of, random_split
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.inspect import draft as shared
from core.jobs.inspect import DataFinding, DataReport, FindingLevel, Seen, SeenPart
from core.options import RunOptions
from core.options.choices import ChatTemplate, PreferenceLoss, Speaker, Task

NOTHING_LEFT = FindingKind(
    "nothing-left", FindingLevel.PROBLEM, _("There is no example to learn from."), _("Choose another file")
)


def inspect_conversations(options: RunOptions, stages: shared.Stages) -> DataReport:
    """Reports on conversations, or pairs of answers.

    Raises:
        DataError: The table can't be read at all.
    """
    data = options.data
    table = read_training(data, stages.next(0.0))
    draft = shared.Draft(table.notes)
    report = partial(draft.report, source=data.train, **shared.table_fields(table))
    model = _model(options, draft)
    renderer = None if model is None else Renderer(model.tokenizer, data.loss_on)
    length = data.max_length if model is None else model.length

    def tokenize(rows: Table, **more: Any) -> TokenizedTable:
        chosen = set(rows.numbers[shared.evenly_chosen(rows.rows.num_rows)].tolist())
        return tokenize_table(rows, options, renderer, length, only=chosen, keep_first=shared.SHOWN, **more)

    used, progress = table.first(data.max_train_samples), stages.next(0.6)
    try:
        train = tokenize(used, progress=lambda done: progress(done, used.rows.num_rows))
    except DataError as error:
        draft.problems.append(shared.as_problem(error.option or "data.columns", error))
        return report()
    repeated = () if data.drop_duplicates else train.repeated.findings()
    draft.findings += [*_findings(train, model), *(shared.of_repeats(found, data) for found in repeated)]
    train_rows = left_rows = _rows_left(train, renderer, options, draft)
    is_paired = train.shape.kind is ShapeKind.PREFERENCE and options.preference is PreferenceLoss.KTO
    eval_rows, per_row = None, 2 if is_paired else 1
    if is_paired:
        draft.notes.append(
            _("With KTO each pair is two examples: an answer that is liked and one that is not.")
        )
    if _is_sound(train) and train.rendered < train.usable:
        draft.notes.append(
            _(
                "Lengths and findings about truncated answers and the chat template are those of {rendered:,} "
                "examples, evenly chosen out of {usable:,}."
            ).format(usable=train.usable, rendered=train.rendered)
        )
    held_out = held_out_of(options)
    if held_out:
        try:
            other = tokenize(read_held_out(held_out).first(data.max_eval_samples), train=train)
            draft.findings += shared.of_evaluation(_findings(other, model), held_out)
            draft.findings += [
                msgspec.structs.replace(found, in_eval=True) for found in other.repeated.findings()
            ]
            left = _rows_left(other, renderer, options, draft)
            eval_rows = None if train_rows is None or left is None else left * per_row
        except DataError as error:
            error.fixes = (*error.fixes, *held_out.instead)
            draft.problems.append(shared.as_problem(held_out.option, error))
    if train_rows is not None:
        places: Sequence[int] = range(train_rows)
        if not held_out:
            places, rest = random_split(train_rows, data.eval_fraction, options.training.seed)
            eval_rows = len(rest[: data.max_eval_samples]) * per_row
            if data.eval_fraction and not rest:
                draft.notes.append(NOTHING_HELD_OUT)
        train_rows = len(places) * per_row
        if data.packing and options.task is Task.CHAT:
            train_rows = _packed_rows(train, places) if renderer and train.rendered == train.usable else None
    unit, limit = (shared.CHARACTERS, None) if renderer is None else (shared.TOKENS, length)
    return report(
        used=left_rows,
        columns_by_role={role.value: name for role, name in train.shape.columns.items()},
        shape=str(train.shape.kind),
        labels={_("liked"): train.liked[True], _("not liked"): train.liked[False]} if train.liked else {},
        lengths=shared.histogram(train.lengths, unit, limit),
        seen=tuple(_seen(train.first, renderer, length)),
        train_rows=train_rows,
        eval_rows=eval_rows,
    )


def _model(options: RunOptions, draft: shared.Draft) -> shared.ModelTokenizer | None:
    """Returns the tokenizer of a run with its chat template, if it is on this computer."""
    chosen = options.data.chat_template
    model = shared.model_tokenizer(options, lambda: all_pieces(texts_of_conversations(options)))
    if model is None or not model.tokenizer.is_fast:
        return None
    draft.add_model(model)
    if set_template(model.tokenizer, chosen) is ChatTemplate.CHATML and chosen is ChatTemplate.AUTO:
        note = _("The model has no chat template of its own: conversations are written in ChatML.")
        draft.notes.append(paragraph(note, WITH_TEMPLATE))
    return model


def _findings(result: TokenizedTable, model: shared.ModelTokenizer | None) -> Iterator[DataFinding]:
    """Yields all findings, with whether there are enough rows."""
    fixes = longer(result.lengths, model.length, model.usable) if model is not None else ()
    cut = (ANSWERS_CUT.code, ANSWERS_GONE.code)
    findings = tuple(
        msgspec.structs.replace(found, fixes=(*fixes, *found.fixes)) if found.code in cut else found
        for found in result.findings()
    )
    row_word = result.table.row_word
    yield from offered(findings) if result.usable else findings
    if result.usable == 0 and not result.tally.has_problems:
        yield NOTHING_LEFT.finding(0, row_word)
    yield from few_rows(result.usable, row_word)


def _is_sound(result: TokenizedTable) -> bool:
    """Returns whether no row stops a run."""
    return not result.tally.has_problems and result.usable > 0


def _rows_left(
    result: TokenizedTable, renderer: Renderer | None, options: RunOptions, draft: shared.Draft
) -> int | None:
    """Returns the rows left to learn from; None if a run would stop, or if not all rows were tokenized to know that."""
    if not _is_sound(result):
        return None
    if renderer is None:
        return result.usable
    left = len(result.samples)
    if result.rendered == result.usable:
        draft.check("data.max_length", lambda: result.check(options))
        return left
    return result.usable if left == result.rendered else None


def _packed_rows(result: TokenizedTable, places: Sequence[int]) -> int:
    """Returns the rows of an epoch when several conversations share one, as TRL packs them for the run."""
    from trl import pack_dataset

    return len(places) and len(pack_dataset(result.samples.select(places), result.length, "bfd"))


def _seen(rows: Sequence[ChatRow], renderer: Renderer | None, length: int) -> Iterator[Seen]:
    """Yields each row as it will be trained on, or its messages without a tokenizer."""
    for row in rows:
        if renderer is None:
            prompt = tuple(_parts(row.messages, is_trained=not row.chosen))
            rejected = (*prompt, *_parts(row.rejected)) if row.rejected else ()
            text = () if row.text is None else (SeenPart(row.text, trained=True),)
            parts = (*text, *prompt, *_parts(row.chosen))
            yield Seen(row=row.row, parts=parts, rejected=rejected, liked=row.liked)
            continue
        try:
            yield preview_row(renderer, row, length)
        except TemplateRefused:
            continue  # the refusal is a finding already


def _parts(messages: Sequence[Message], *, is_trained: bool = True) -> Iterator[SeenPart]:
    for message in messages:
        functions = [call["function"] for call in message.get("tool_calls", ())]
        calls = "".join(
            _("\n[calls {name}: {arguments}]").format(name=call["name"], arguments=call["arguments"])
            for call in functions
        )
        yield SeenPart(f"{message['role']}: ")
        yield SeenPart(f"{message['content']}{calls}", is_trained and message["role"] == Speaker.ASSISTANT)
        yield SeenPart("\n\n")
