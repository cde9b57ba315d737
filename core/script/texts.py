"""Code for tasks that read a text and say something of it: a class, a number, or a label for each word."""

from core.choices import Padding, Task
from core.script.facts import Form, ScriptFacts
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.script.rows import CELL, FIRST_OF_EQUALS, PLAIN_SPLIT, STRATIFIED, reader
from core.sources import parse_synthetic, synthetic_lengths

IN_ORDER = '''
def in_order(names):
    """The distinct names, numbers by value and everything else by alphabet."""
    distinct = set(names)
    try:
        return sorted(distinct, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(distinct)
'''

SPACED = '''
def spaced(words):
    """The words as they stand in a running text: byte-level tokenizers take the space before a word for part of it."""
    steps = json.loads(tokenizer.backend_tokenizer.to_str()).get("pre_tokenizer") or {}
    if not any(step.get("type") == "ByteLevel" for step in steps.get("pretokenizers", [steps])):
        return words
    return [*words[:1], *(f" {word}" if word else "" for word in words[1:])]
'''

ENCODE_WORDS = '''
def samples_of(rows):
    """The tokens of each text, cut off at LENGTH, with a label at the first token of each word and -100 elsewhere."""
    encoded = tokenizer(
        [spaced(row["words"]) for row in rows], is_split_into_words=True, truncation=True, max_length=LENGTH
    )
    samples = []
    for number, row in enumerate(rows):
        places = encoded.word_ids(number)
        ends = zip([None, *places], places)
        labels = [-100 if word is None or word == last else row["label"][word] for last, word in ends]
        if any(label != -100 for label in labels):
            samples.append({**{name: encoded[name][number] for name in encoded}, "labels": labels})
    return samples
'''

ENCODE = '''
def samples_of(rows):
    """The tokens of each row's texts, cut off at LENGTH."""
    columns = [[row[name] for row in rows] for name in TEXT_COLUMNS]
    encoded = tokenizer(*columns, truncation=True, max_length=LENGTH)
    return [
        {**{name: encoded[name][number] for name in encoded}, "labels": row["label"]}
        for number, row in enumerate(rows)
    ]
'''

LISTED = '''
def listed(value):
    """A list of words: as it stands, written as JSON or by Python, or with spaces between them."""
    if isinstance(value, list):
        return [str(word) for word in value]
    value = (value or "").strip()
    if not (value.startswith("[") and value.endswith("]")):
        return value.split()
    try:
        return [str(word) for word in json.loads(value)]
    except ValueError:
        return [str(word) for word in ast.literal_eval(value)]
'''


def data(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """Reads, splits and labels the rows: `train_rows`, `eval_rows` and, where there are classes, `labels`."""
    if parse_synthetic(run.options.data.train):
        return [_random(run)]
    assert facts.rows is not None, "there are rows where the data is no random one"
    return [reader(facts.rows), _usable(run, facts), _split(run, facts)]


def _usable(run: Resolved, facts: ScriptFacts) -> Part:
    """A function `usable(rows)`: those with all that is needed, their texts and their labels."""
    if run.options.task is Task.TOKEN_CLASSIFICATION:
        return _words(facts)
    columns, label = facts.text_columns, facts.label_column
    cell = "row[name]" if _is_text(facts) else "text(row.get(name))"
    is_number = run.options.task is Task.TEXT_REGRESSION
    answer = "float(row[LABEL_COLUMN])" if is_number else "row[LABEL_COLUMN].strip()"
    code = f'''
TEXT_COLUMNS, LABEL_COLUMN = {literal(columns)}, {literal(label)}
{"" if _is_text(facts) else CELL}

def usable(rows):
    """The rows that have their texts and a label; the others are left out."""
    rows = [{{name: {cell} for name in (*TEXT_COLUMNS, LABEL_COLUMN)}} for row in rows]
    rows = [row for row in rows if all(cell.strip() for cell in row.values())]
    return [{{**row, "label": {answer}}} for row in rows]
'''
    return Part("What is learned from.", code)


def _is_text(facts: ScriptFacts) -> bool:
    return facts.rows is not None and facts.rows.form is Form.DELIMITED


def _words(facts: ScriptFacts) -> Part:
    numbers = facts.rows.numbers if facts.rows else ()
    name = f"{literal(numbers)}[int(tag)]" if numbers else "tag"
    words, tags = (*facts.text_columns, "tokens")[0], facts.label_column or "tags"
    code = f'''{LISTED}

def usable(rows):
    """The words of each row and their tags; rows without words are left out."""
    rows = [{{"words": listed(row[{literal(words)}]), "label": listed(row[{literal(tags)}])}} for row in rows]
    return [{{**row, "label": [{name} for tag in row["label"]]}} for row in rows if row["words"]]
'''
    return Part("What is learned from.", code, ("import ast", "import json"))


def _split(run: Resolved, facts: ScriptFacts) -> Part:
    """Training and held-out rows; `labels` in Hone's order, and each row's label as its place among them."""
    options, task = run.options.data, run.options.task
    is_stratified = task is Task.TEXT_CLASSIFICATION
    assert facts.rows is not None, "only data on a disk is split"
    first = f"[:{options.max_train_samples}]" if options.max_train_samples else ""
    lines = [f"rows = usable(read({literal(facts.rows.files)}){first})"]
    helpers = ""
    if options.drop_duplicates:
        helpers += FIRST_OF_EQUALS
        lines.append("rows = first_of_equals(rows, lambda row: str(list(row.values())))")
    if facts.eval_rows is not None:
        lines += _own_evaluation(facts, options.max_eval_samples)
    if task.has_labels:
        helpers += IN_ORDER
        lines += _labelling(task, has_own=facts.eval_rows is not None)
    imports: tuple[str, ...] = ()
    if facts.eval_rows is not None or not options.eval_fraction:
        lines.append("train_rows = rows" + ("" if facts.eval_rows else "\neval_rows = []"))
    else:
        helpers += STRATIFIED if is_stratified else PLAIN_SPLIT
        told = '[row["label"] for row in rows]' if is_stratified else "len(rows)"
        limit = f"[:{options.max_eval_samples}]" if options.max_eval_samples else ""
        lines += [
            f"train_numbers, eval_numbers = hold_out({told}, {literal(options.eval_fraction)})",
            "train_rows = [rows[number] for number in train_numbers]",
            f"eval_rows = [rows[number] for number in eval_numbers{limit}]",
        ]
        imports = ("import numpy as np",)
    return Part("The same rows are held out.", helpers + "\n\n" + "\n".join(lines), imports)


def _own_evaluation(facts: ScriptFacts, limit: int | None) -> list[str]:
    assert facts.eval_rows is not None
    first = f"[:{limit}]" if limit else ""
    return [f"eval_rows = usable(read({literal(facts.eval_rows.files)}){first})"]


def _labelling(task: Task, *, has_own: bool) -> list[str]:
    both = "rows + eval_rows" if has_own else "rows"
    if task is Task.TOKEN_CLASSIFICATION:
        return [
            'labels = in_order(tag for row in rows for tag in row["label"])',
            f"for row in {both}:",
            '    row["label"] = [labels.index(tag) for tag in row["label"]]',
        ]
    return [
        'labels = in_order(row["label"] for row in rows)',
        f"for row in {both}:",
        '    row["label"] = labels.index(row["label"])',
    ]


def _random(run: Resolved) -> Part:
    found = parse_synthetic(run.options.data.train)
    assert found is not None
    samples, length = found
    samples = min(samples, run.options.data.max_train_samples or samples)
    answers = {
        Task.TOKEN_CLASSIFICATION: "random.integers(0, 2, ids.shape).tolist()",
        Task.TEXT_REGRESSION: "random.random(len(ids)).tolist()",
    }.get(run.options.task, "random.permutation(np.arange(len(ids)) % 2).tolist()")
    labels = 'labels = ["0", "1"]\n' if run.options.task.has_labels else ""
    code = f"""
{labels}random = np.random.default_rng(SEED)
ids = random.integers(0, config.vocab_size, ({samples}, {length}))
answers = {answers}
{_rows_of_random(run)}
evaluation = []
"""
    return Part("Random tokens, for timing.", code, ("import numpy as np",))


def _rows_of_random(run: Resolved) -> str:
    """The samples from `ids` and `answers`, each cut to a length of its own where these differ."""
    shortest, longest = synthetic_lengths(run.options.data.train) or (0, 0)
    if shortest == longest:
        return """train = [
    {"input_ids": row, "attention_mask": [1] * len(row), "labels": answer}
    for row, answer in zip(ids.tolist(), answers)
]"""
    label = "answer[:size]" if run.options.task is Task.TOKEN_CLASSIFICATION else "answer"
    return f"""sizes = random.integers({shortest}, {longest + 1}, len(ids)).tolist()
train = [
    {{"input_ids": row[:size], "attention_mask": [1] * size, "labels": {label}}}
    for row, size, answer in zip(ids.tolist(), sizes, answers)
]"""


def samples(run: Resolved) -> list[Part]:
    """Tokenizes: `train` and `evaluation`, lists of what the model takes."""
    collator = _collator(run)
    if parse_synthetic(run.options.data.train):
        return [collator]
    encode = ENCODE
    imports: tuple[str, ...] = ()
    if run.options.task is Task.TOKEN_CLASSIFICATION:
        encode, imports = SPACED + "\n" + ENCODE_WORDS, ("import json",)
    code = f"{encode}\n\ntrain = samples_of(train_rows)\nevaluation = samples_of(eval_rows) if eval_rows else []\n"
    return [Part("Texts to tokens; longer ones are cut off.", code, imports), collator]


def _collator(run: Resolved) -> Part:
    is_words = run.options.task is Task.TOKEN_CLASSIFICATION
    name = "DataCollatorForTokenClassification" if is_words else "DataCollatorWithPadding"
    how = (
        'padding="max_length", max_length=LENGTH'
        if run.options.data.padding is Padding.FIXED
        else "padding=True"
    )
    return Part("", f"collate = {name}(tokenizer, {how})\n", (f"from transformers import {name}",))


CLASSES_METRICS = '''
def metrics(prediction):
    """Accuracy, and F1: of class 1 where there are two, else the mean over the classes."""
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    guesses = logits.argmax(-1)
    average = "binary" if logits.shape[-1] == 2 else "macro"
    return {
        "accuracy": accuracy_score(prediction.label_ids, guesses),
        "f1": f1_score(prediction.label_ids, guesses, average=average, zero_division=0),
    }
'''
NUMBERS_METRICS = '''
def metrics(prediction):
    """Pearson's correlation and the mean absolute error."""
    guesses, truth = np.ravel(prediction.predictions).astype(float), prediction.label_ids.astype(float)
    return {"pearson": np.corrcoef(truth, guesses)[0, 1], "mae": np.abs(truth - guesses).mean()}
'''
WORDS_METRICS = '''
def metrics(prediction):
    """The share of words with the right label. (Hone counts whole entities, as conlleval does.)"""
    known = prediction.label_ids != -100
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids)[known].mean()}
'''


def metrics(task: Task) -> Part:
    """A function `metrics` for `compute_metrics`; none for tasks that are judged by their loss."""
    title = "How good it is."
    match task:
        case Task.TEXT_CLASSIFICATION | Task.IMAGE_CLASSIFICATION:
            return Part(title, CLASSES_METRICS, ("from sklearn.metrics import accuracy_score, f1_score",))
        case Task.TEXT_REGRESSION:
            return Part(title, NUMBERS_METRICS, ("import numpy as np",))
        case Task.TOKEN_CLASSIFICATION:
            return Part(title, WORDS_METRICS)
    return Part("", "")
