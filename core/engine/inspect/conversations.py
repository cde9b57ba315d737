"""Conversations and pairs of answers: what a run's own pass over them finds, and how the first ones will be seen."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from core.base.errors import DataError, ModelError, Problem
from core.engine.data.chat_samples import TokenizedTable, tokenize_table
from core.engine.data.chat_tokens import Renderer, TemplateRefused, preview_row, set_template
from core.engine.data.checks import few_rows, offered
from core.engine.data.conversations import ChatRow, Message
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_count, held_out_of, random_split
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.inspect import report as tables
from core.engine.inspect.preview import CHARACTERS, TOKENS, histogram, tokenizer_at_hand
from core.engine.inspect.report import SHOWN, Stages, evenly_chosen, of_evaluation, of_repeats
from core.options import RunOptions
from core.options.choices import ChatTemplate, Speaker, Task
from core.services.inspect import DataReport, Finding, FindingKind, FindingLevel, Seen, SeenPart, in_order

NOTHING_LEFT = FindingKind(
    "nothing-left", FindingLevel.PROBLEM, "There is no row to learn from.", "Choose another file"
)
LENT_TEMPLATE = "The model has no chat template of its own: conversations are written in ChatML."


def inspect_conversations(options: RunOptions, stages: Stages) -> DataReport:
    """Inspect conversations, or pairs of answers.

    Raises:
        DataError: The table can't be read at all.
    """
    data = options.data
    with stages.stage(0.0) as tell:
        table = read_training(data, tell)
    report = DataReport(source=data.train, **tables.about_table(table))
    notes = list(tables.other_notes(table.notes))
    findings = list(tables.note_findings(table.notes))
    renderer, length, is_lent = _renderer(options)
    notes += [LENT_TEMPLATE] if is_lent else []

    def tokenized(used: Table, **more: Any) -> TokenizedTable:
        chosen = set(used.numbers[evenly_chosen(used.rows.num_rows)].tolist())
        return tokenize_table(used, options, renderer, length, only=chosen, keep_first=SHOWN, **more)

    used = table.first(data.max_train_samples)
    try:
        with stages.stage(0.6) as tell:
            train = tokenized(used, progress=lambda done: tell(done, used.rows.num_rows))
    except DataError as error:
        option = "data.roles" if "data.roles" in error.detail else "data.columns"
        stops = (tables.as_problem(option, error),)
        return msgspec.structs.replace(report, problems=stops, findings=tuple(findings), notes=tuple(notes))
    findings += [*_findings(train), *(of_repeats(found, data) for found in train.repeated.findings())]
    problems = list(_nothing_left(train, renderer, options))
    train_rows, eval_rows = _rows_left(train, renderer), None
    apart = held_out_of(data)
    if apart:
        try:
            other = read_held_out(apart).first(data.max_eval_samples)
            held_out = tokenized(other, train=train)
            findings += of_evaluation(_findings(held_out), apart)
            findings += [
                msgspec.structs.replace(found, in_eval=True) for found in held_out.in_both.findings()
            ]
            problems += _nothing_left(held_out, renderer, options)
            eval_rows = _rows_left(held_out, renderer) if train_rows is not None else None
        except DataError as error:
            error.fixes = (*error.fixes, apart.instead)
            problems.append(tables.as_problem(apart.option, error))
    if _is_sound(train) and train.rendered < train.usable:
        notes.append(
            f"Of {train.usable:,} rows {train.rendered:,}, evenly chosen, were written as the model sees them: "
            "lengths, and what is said of cut-off answers and of the chat template, are of these."
        )
    if train_rows is not None:
        places: Sequence[int] = range(train_rows)
        if not apart:
            eval_rows = held_out_count([train_rows], data.eval_fraction)
            if data.eval_fraction and not eval_rows:
                notes.append(NOTHING_HELD_OUT)
            places = random_split(train_rows, data.eval_fraction, options.training.seed)[0]
            eval_rows = eval_rows if data.max_eval_samples is None else min(eval_rows, data.max_eval_samples)
        train_rows = len(places)
        if data.packing and options.task is Task.CHAT:
            train_rows = _packed(train, places) if renderer and train.rendered == train.usable else None
    unit, limit = (CHARACTERS, None) if renderer is None else (TOKENS, length)
    return msgspec.structs.replace(
        report,
        columns_by_role={role.value: name for role, name in train.shape.columns.items()},
        shape=str(train.shape.kind),
        lengths=histogram(train.lengths, unit, limit),
        seen=tuple(_seen(train.first, renderer, length)),
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=tuple(problems),
        findings=in_order(findings),
        notes=tuple(notes),
    )


def _renderer(options: RunOptions) -> tuple[Renderer | None, int, bool]:
    """The renderer of a run where the tokenizer is at hand, its length, and whether ChatML stands in for a template."""
    at_hand = tokenizer_at_hand(options)
    if at_hand is None:
        return None, options.data.max_length, False
    chosen = options.data.chat_template
    template = set_template(at_hand.tokenizer, chosen)
    try:
        renderer = Renderer(at_hand.tokenizer, options.data.loss_on)
    except ModelError:
        return None, options.data.max_length, False
    return renderer, at_hand.length, template is ChatTemplate.CHATML and chosen is ChatTemplate.AUTO


def _findings(found: TokenizedTable) -> Iterator[Finding]:
    """All that was found, with whether there are enough rows."""
    findings = found.tally.findings()
    yield from offered(findings) if found.usable else findings
    if found.usable == 0 and not found.tally.has_problems:
        yield NOTHING_LEFT.finding(0, found.table.row_word)
    yield from few_rows(found.usable, found.table.row_word)


def _is_sound(found: TokenizedTable) -> bool:
    """Whether no row stops a run."""
    return not found.tally.has_problems and found.usable > 0


def _nothing_left(found: TokenizedTable, renderer: Renderer | None, options: RunOptions) -> Iterator[Problem]:
    """What stops a run where every row was left out once it was rendered."""
    if _is_sound(found) and renderer and not len(found.samples) and found.rendered == found.usable:
        yield from tables.problem_of("data.max_length", lambda: found.check(options))


def _rows_left(found: TokenizedTable, renderer: Renderer | None) -> int | None:
    """The rows left to learn from; None where that isn't known, as not all were rendered, or where a run stops."""
    if not _is_sound(found):
        return None
    if renderer is None:
        return found.usable
    left = len(found.samples)
    if found.rendered == found.usable:
        return left
    return found.usable if left == found.rendered else None


def _packed(found: TokenizedTable, places: Sequence[int]) -> int:
    """The rows of an epoch once several conversations share one, as TRL packs them for the run."""
    from trl import pack_dataset

    return len(places) and len(pack_dataset(found.samples.select(places), found.length, "bfd"))


def _seen(rows: Sequence[ChatRow], renderer: Renderer | None, length: int) -> Iterator[Seen]:
    """Each row as it will be trained on; without a tokenizer as who says what."""
    for row in rows:
        if renderer is None:
            prompt = tuple(_parts(row.messages, is_trained=not row.chosen))
            rejected = (*prompt, *_parts(row.rejected)) if row.rejected else ()
            text = () if row.text is None else (SeenPart(row.text, trained=True),)
            yield Seen(row=row.row, parts=(*text, *prompt, *_parts(row.chosen)), rejected=rejected)
            continue
        try:
            yield preview_row(renderer, row, length)
        except TemplateRefused:
            continue  # among the findings


def _parts(messages: Sequence[Message], *, is_trained: bool = True) -> Iterator[SeenPart]:
    for message in messages:
        functions = [call["function"] for call in message.get("tool_calls", ())]
        calls = "".join(f"\n[calls {function['name']}: {function['arguments']}]" for function in functions)
        yield SeenPart(f"{message['role']}: ")
        yield SeenPart(f"{message['content']}{calls}", is_trained and message["role"] == Speaker.ASSISTANT)
        yield SeenPart("\n\n")
