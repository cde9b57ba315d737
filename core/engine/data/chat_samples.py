"""The one pass over conversations or pairs of answers: every row read, checked, rendered, cut and counted.

A run trains on the rows that are left and stops on the first problem; the preview shows all that was found.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.chat_tokens import Rendered, Renderer, TemplateRefused, set_template
from core.engine.data.checks import DUPLICATES, IN_BOTH, refuse_problems, repeats
from core.engine.data.conversations import ChatRow, ConversationReader, Shape, find_shape
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_of, random_split
from core.engine.data.tables import Table, lengths_of, read_held_out, read_training
from core.options import RunOptions
from core.options.choices import ChatTemplate, Task
from core.services.inspect import Finding, FindingKind, FindingLevel, Tally

if TYPE_CHECKING:
    from datasets import Dataset

_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

TEMPLATE_REFUSES = FindingKind(
    "template-refuses", _PROBLEM, _("{rows} {are} refused by the chat template: {detail}")
)
ANSWER_LOST = FindingKind(
    "answer-lost", _PROBLEM, _("The chat template doesn't show where the answers of {rows} begin.")
)
ANSWER_LEFT_OUT = FindingKind(
    "answer-left-out", _PROBLEM, _("The chat template leaves out what the assistant says or calls in {rows}.")
)
ANSWERS_CUT = FindingKind(
    "answers-cut", _WARNING, _("{rows} {have} an answer that is cut off at {detail} tokens.")
)
ANSWERS_GONE = FindingKind(
    "answers-gone", _WARNING, _("{rows} {are} left out: no answer of theirs begins within {detail} tokens.")
)
EARLIER_UNTRAINED = FindingKind(
    "earlier-untrained",
    _WARNING,
    _("Of {rows} only the last answer is learned: the chat template rewrites earlier ones."),
)
USE_CHATML = (Fix(_("Use ChatML"), {"data.chat_template": str(ChatTemplate.CHATML)}),)
"""Whatever a model's own template can't do; the model has to learn ChatML, which takes some more rows."""

ROWS_AT_ONCE = 1000
REASON_CHARACTERS = 200
LENGTH_STEP = 64
"""A length that is proposed is a multiple of it."""


@dataclass
class TokenizedTable:
    """What a pass over a table found.

    `samples` are the rows left to learn from, as `Rendered.columns`. `usable` counts the rows that could be read,
    `rendered` those of them that were rendered; `first` are the first of them. `lengths` has the tokens of each
    rendered row before it is cut, or its characters where there is no tokenizer; `too_long` the tokens of rows that are
    left out because no answer begins within `length`. `repeated` counts rows that are the same as an earlier one,
    `in_both` those that the training data has, too.
    """

    table: Table
    shape: Shape
    length: int
    tally: Tally
    repeated: Tally
    in_both: Tally
    usable: int = 0
    rendered: int = 0
    first: list[ChatRow] = field(default_factory=list)
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    too_long: "array[int]" = field(default_factory=lambda: array("q"))
    fingerprints: set[int] = field(default_factory=set)
    last_tokens: Counter[int] = field(default_factory=Counter)
    samples: Any = None

    @property
    def turn_end(self) -> int | None:
        """The token most answers end with; None where there is no such."""
        found = self.last_tokens.most_common(1)  # none where every answer is cut off
        return next((token for token, count in found if 2 * count > self.last_tokens.total()), None)

    def check(self, options: RunOptions) -> None:
        """Stop where a row has a problem, or none is left.

        Raises:
            DataError: All problems with their rows and fixes; or why every row was left out.
        """
        findings = self.tally.findings()
        refuse_problems(self.table, findings, len(self.samples))
        if len(self.samples):
            return
        fix = Fix(_("Choose another file"))
        if self.too_long:
            needed = sorted(self.too_long)[len(self.too_long) // 2]
            enough = -(-needed // LENGTH_STEP) * LENGTH_STEP
            fix = Fix(_("Allow {enough:,} tokens").format(enough=enough), {"data.max_length": enough})
            if self.length != options.data.max_length:
                fix = Fix(_("Choose a model that sees more"))
        found = " ".join(finding.message for finding in findings) or _("It has no rows.")
        path = self.table.path
        raise DataError(
            _("Nothing in {name} is left to learn from").format(name=path.name), f"{path}: {found}", (fix,)
        )


def tokenize_table(
    table: Table,
    options: RunOptions,
    renderer: Renderer | None,
    length: int,
    *,
    train: TokenizedTable | None = None,
    only: Container[int] | None = None,
    keep_first: int = 0,
    progress: Callable[[int], None] | None = None,
) -> TokenizedTable:
    """Read all rows of a table, and render them; what is wrong with them is in the result.

    Args:
        table: The rows.
        options: The columns, roles, and which rows are left out.
        renderer: The tokenizer with its template, and what is learned; None: lengths are counted in characters.
        length: Tokens of the longest row; what is beyond is cut off.
        train: The training data, where these rows are to evaluate on.
        only: Numbers of the rows that are rendered, while all are counted; None: all.
        keep_first: Rows that are kept as they were read.
        progress: Called with the number of rows read so far.

    Raises:
        DataError: The columns don't fit, or `data.roles` maps a name to something that is no role.
    """
    data = options.data
    shape = find_shape(table, preference=options.task is Task.PREFERENCE, columns=data.columns)
    tally = Tally(table.row_word, skip=data.skip_bad_rows)
    found = TokenizedTable(table, shape, length, tally, Tally(table.row_word), Tally(table.row_word))
    reader = ConversationReader(table, shape, tally, data.roles, progress)
    known: Set[int] = train.fingerprints if train else frozenset()

    def rows() -> Iterator[ChatRow]:
        for row in reader:
            fingerprint = row.fingerprint()
            if fingerprint in known:
                found.in_both.add(IN_BOTH, row.row)
            if fingerprint in found.fingerprints:
                found.repeated.add(DUPLICATES, row.row)
                if data.drop_duplicates and train is None:
                    continue
            found.fingerprints.add(fingerprint)
            found.usable += 1
            if len(found.first) < keep_first:
                found.first.append(row)
            if only is None or row.row in only:
                found.rendered += 1
                yield row

    def samples() -> Iterator[dict[str, list[int]]]:
        for row in rows():
            if renderer is None:
                found.lengths.append(_characters(row))
            elif rendered := _rendered(row, renderer, found):
                yield rendered.columns()

    found.samples = _as_dataset(samples())
    return found


def _rendered(row: ChatRow, renderer: Renderer, found: TokenizedTable) -> Rendered | None:
    """The row as tokens, cut; None, and counted, where nothing is left to learn of it."""
    tally, limit = found.tally, f"{found.length:,}"
    try:
        whole = renderer.render(row)
    except TemplateRefused as refusal:
        tally.add(TEMPLATE_REFUSES, row.row, detail=refusal.reason[:REASON_CHARACTERS], fixes=USE_CHATML)
        return None
    found.lengths.append(len(whole))
    cut = whole.first(found.length)
    if not whole.is_whole:
        tally.add(ANSWER_LEFT_OUT, row.row, fixes=USE_CHATML)
        return None
    if not all(whole.learned):
        tally.add(ANSWER_LOST, row.row, fixes=USE_CHATML)
        return None
    if not all(cut.learned):
        tally.add(ANSWERS_GONE, row.row, detail=limit)
        found.too_long.append(len(whole))
        return None
    if cut.learned != whole.learned:
        tally.add(ANSWERS_CUT, row.row, detail=limit)
    else:
        for tokens in cut.sequences:
            last = max(place for place, learned in enumerate(tokens.trained) if learned)
            found.last_tokens[tokens.ids[last]] += 1
    if whole.skipped:
        tally.add(EARLIER_UNTRAINED, row.row, fixes=USE_CHATML)
    return cut


def _characters(row: ChatRow) -> int:
    """How long a row is; of a pair with the longer answer."""
    prompt, chosen, rejected = (
        sum(len(message["content"]) + len(message.get("reasoning_content", "")) for message in messages)
        for messages in (row.messages, row.chosen, row.rejected)
    )
    return len(row.text or "") + prompt + max(chosen, rejected)


def _as_dataset(samples: Iterable[dict[str, list[int]]]) -> "Dataset":
    """The samples in Arrow's memory, which takes 4 bytes a number; as Python's lists they would take ten times that."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    kind = pa.list_(pa.int32())
    pieces, rest = [], iter(samples)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        pieces.append(pa.table({name: pa.array([sample[name] for sample in some], kind) for name in some[0]}))
    return Dataset(InMemoryTable(pa.concat_tables(pieces))) if pieces else Dataset.from_dict({})


# --- What a run trains on


@dataclass(frozen=True)
class Conversations:
    """Data sets of `input_ids` and `labels`, or of `prompt_ids`, `chosen_ids` and `rejected_ids`.

    `eval` is None where nothing is held out. `findings` are warnings about the data, those about evaluation data last.
    `turn_end` is the token that most answers end with; None: there is no such.
    """

    train: "Dataset"
    eval: "Dataset | None"
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    turn_end: int | None = None


def load_conversations(options: RunOptions, renderer: Renderer, length: int) -> Conversations:
    """What a run trains on and evaluates on.

    Args:
        options: What is asked.
        renderer: The tokenizer with its template, and what is learned.
        length: Tokens of the longest row; what is beyond is cut off.

    Raises:
        DataError: Something in the data stops the run, or nothing of it is left to learn; the rows are named.
    """
    data = options.data
    table = read_training(data).first(data.max_train_samples)
    train = tokenize_table(table, options, renderer, length)
    train.check(options)
    samples, findings = train.samples, train.tally.findings()
    repeated = sum(finding.count for finding in train.repeated.findings()) if data.drop_duplicates else 0
    notes = (*table.notes, *repeats(repeated, table.row_word))
    if apart := held_out_of(data):
        try:
            other = read_held_out(apart).first(data.max_eval_samples)
            held_out = tokenize_table(other, options, renderer, length, train=train)
            held_out.check(options)
        except DataError as error:
            raise type(error)(error.title, error.detail, (*error.fixes, apart.instead)) from error
        findings = (*findings, *held_out.tally.findings())
        return Conversations(samples, held_out.samples, findings, notes, train.turn_end)
    kept, rest = random_split(len(samples), data.eval_fraction, options.training.seed)
    rest = rest[: data.max_eval_samples]
    if not rest:
        notes = (*notes, NOTHING_HELD_OUT) if data.eval_fraction else notes
        return Conversations(samples, None, findings, notes, train.turn_end)
    return Conversations(samples.select(kept), samples.select(rest), findings, notes, train.turn_end)


# --- Which row gets the most tokens, found without rendering all of them


CANDIDATES = 128
"""So many rows with the most bytes are rendered."""


def longest_conversation(options: RunOptions, tokenizer: Any, most: int) -> tuple[int, int]:
    """Tokens of the longest row, at most `most` (0: none can be used), and bytes of all texts.

    Args:
        options: What is asked.
        tokenizer: The model's, which gets the chosen template; None: only bytes are counted.
        most: The most tokens of a row.

    Raises:
        DataError: The data can't be read.
    """
    data = options.data
    table = read_training(data).first(data.max_train_samples)
    shape = find_shape(table, preference=options.task is Task.PREFERENCE, columns=data.columns)
    sizes: Any = sum(_text_bytes(table.rows[name]) for name in shape.columns.values())
    if tokenizer is None:
        return 0, int(sizes.sum())
    set_template(tokenizer, ChatTemplate(data.chat_template))
    places = np.sort(np.argsort(-sizes, kind="stable")[:CANDIDATES])
    table = replace(table, rows=table.rows.take(pa.array(places)), numbers=np.asarray(table.numbers)[places])
    found = tokenize_table(table, options, Renderer(tokenizer, data.loss_on), most)
    return max(lengths_of(found.samples) or (), default=0), int(sizes.sum())


def _text_bytes(column: Any) -> Any:
    """Bytes of the texts in each cell, also of texts within lists of objects."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(float)
    found = np.zeros(len(column))
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            found += _text_bytes(pc.struct_field(column, index))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        owners = pc.list_parent_indices(joined).to_numpy()
        np.add.at(found, owners, _text_bytes(pc.list_flatten(joined)))
    return found
