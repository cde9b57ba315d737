"""Conversations and pairs of answers: what a run's own pass over them finds, and how the first ones will be seen."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from core.base.errors import DataError
from core.base.language import _
from core.engine.data.chat_samples import TokenizedTable, tokenize_table
from core.engine.data.chat_tokens import Renderer, TemplateRefused, preview_row, set_template
from core.engine.data.checks import few_rows, offered
from core.engine.data.conversations import ChatRow, Message
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_of, random_split
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.inspect.report import (
    CHARACTERS,
    SHOWN,
    TOKENS,
    Draft,
    Stages,
    about_table,
    as_problem,
    evenly_chosen,
    histogram,
    of_evaluation,
    of_repeats,
    tokenizer_at_hand,
)
from core.options import RunOptions
from core.options.choices import ChatTemplate, Speaker, Task
from core.services.inspect import DataReport, Finding, FindingKind, FindingLevel, Seen, SeenPart

NOTHING_LEFT = FindingKind(
    "nothing-left", FindingLevel.PROBLEM, _("There is no row to learn from."), _("Choose another file")
)


def inspect_conversations(options: RunOptions, stages: Stages) -> DataReport:
    """Report on conversations, or pairs of answers.

    Raises:
        DataError: The table can't be read at all.
    """
    data = options.data
    table = read_training(data, stages.next(0.0))
    draft = Draft(table.notes)
    report = partial(draft.report, source=data.train, **about_table(table))
    renderer, length = _renderer(options, draft)

    def tokenized(used: Table, **more: Any) -> TokenizedTable:
        chosen = set(used.numbers[evenly_chosen(used.rows.num_rows)].tolist())
        return tokenize_table(used, options, renderer, length, only=chosen, keep_first=SHOWN, **more)

    used, tell = table.first(data.max_train_samples), stages.next(0.6)
    try:
        train = tokenized(used, progress=lambda done: tell(done, used.rows.num_rows))
    except DataError as error:
        option = "data.roles" if "data.roles" in error.detail else "data.columns"
        draft.problems.append(as_problem(option, error))
        return report()
    draft.findings += [*_findings(train), *(of_repeats(found, data) for found in train.repeated.findings())]
    train_rows, eval_rows = _rows_left(train, renderer, options, draft), None
    if _is_sound(train) and train.rendered < train.usable:
        draft.notes.append(
            _(
                "Of {usable:,} rows {rendered:,}, evenly chosen, were written as the model sees "
                "them: "
                "lengths, and what is said of cut-off answers and of the chat template, are of these."
            ).format(usable=train.usable, rendered=train.rendered)
        )
    if apart := held_out_of(data):
        try:
            held_out = tokenized(read_held_out(apart).first(data.max_eval_samples), train=train)
            draft.findings += of_evaluation(_findings(held_out), apart)
            draft.findings += [
                msgspec.structs.replace(found, in_eval=True) for found in held_out.repeated.findings()
            ]
            left = _rows_left(held_out, renderer, options, draft)
            eval_rows = None if train_rows is None else left
        except DataError as error:
            error.fixes = (*error.fixes, apart.instead)
            draft.problems.append(as_problem(apart.option, error))
    if train_rows is not None:
        places: Sequence[int] = range(train_rows)
        if not apart:
            places, rest = random_split(train_rows, data.eval_fraction, options.training.seed)
            eval_rows = len(rest[: data.max_eval_samples])
            if data.eval_fraction and not rest:
                draft.notes.append(NOTHING_HELD_OUT)
        train_rows = len(places)
        if data.packing and options.task is Task.CHAT:
            train_rows = _packed(train, places) if renderer and train.rendered == train.usable else None
    unit, limit = (CHARACTERS, None) if renderer is None else (TOKENS, length)
    return report(
        columns_by_role={role.value: name for role, name in train.shape.columns.items()},
        shape=str(train.shape.kind),
        lengths=histogram(train.lengths, unit, limit),
        seen=tuple(_seen(train.first, renderer, length)),
        train_rows=train_rows,
        eval_rows=eval_rows,
    )


def _renderer(options: RunOptions, draft: Draft) -> tuple[Renderer | None, int]:
    """The renderer of a run where the tokenizer is at hand, and the tokens of a row."""
    chosen = options.data.chat_template
    at_hand = tokenizer_at_hand(options)
    if at_hand is None or not at_hand.tokenizer.is_fast:
        return None, options.data.max_length
    if set_template(at_hand.tokenizer, chosen) is ChatTemplate.CHATML and chosen is ChatTemplate.AUTO:
        draft.notes.append(
            _("The model has no chat template of its own: conversations are written in ChatML.")
        )
    return Renderer(at_hand.tokenizer, options.data.loss_on), at_hand.length


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


def _rows_left(
    found: TokenizedTable, renderer: Renderer | None, options: RunOptions, draft: Draft
) -> int | None:
    """The rows left to learn from; None where that isn't known, as not all were rendered, or where a run stops."""
    if not _is_sound(found):
        return None
    if renderer is None:
        return found.usable
    left = len(found.samples)
    if found.rendered == found.usable:
        draft.check("data.max_length", lambda: found.check(options))
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
        calls = "".join(
            _("\n[calls {function}: {function_2}]").format(
                function=function["name"], function_2=function["arguments"]
            )
            for function in functions
        )
        yield SeenPart(f"{message['role']}: ")
        yield SeenPart(f"{message['content']}{calls}", is_trained and message["role"] == Speaker.ASSISTANT)
        yield SeenPart("\n\n")
