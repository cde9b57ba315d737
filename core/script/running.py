"""Code for going on with a text: documents, a part held out, tokens cut into blocks."""

from core.script.facts import Form, ScriptFacts
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.script.rows import CELL, FIRST_OF_EQUALS, opening, reader
from core.sources import parse_synthetic

TAILS = '''
def head_and_tail(document):
    """A text without its last part, and that part: cut at the end of a line where there is one near."""
    wanted = round(len(document) * (1 - FRACTION))
    line = document.find("\\n", wanted, wanted + max(1, round(len(document) * FRACTION / 2))) + 1
    end = line or wanted or len(document)
    return document[:end], document[end:]
'''
PIECES = '''
def pieces(document, size=1 << 16):
    """A text in pieces, cut behind a line or before a space where one is near: each is tokenized by itself."""
    start = 0
    while start < len(document):
        end = start + size
        if end < len(document):
            near = start + size // 2
            end = document.rfind("\\n", near, end) + 1 or max(document.rfind(" ", near, end), 0) or end
        yield document[start:end]
        start = end
'''
BLOCKS = '''
def blocks(documents):
    """All tokens one after the other, the token that ends a text after each, cut into rows of LENGTH."""
    ids, end = [], tokenizer.eos_token_id
    for document in filter(None, documents):
        for piece in pieces(document):
            ids += tokenizer(piece, add_special_tokens=False, verbose=False)["input_ids"]
        ids += [] if end is None else [end]
    whole = len(ids) // LENGTH * LENGTH or len(ids)  # what is left over at the end fills no row
    return [{"input_ids": ids[start : start + LENGTH]} for start in range(0, whole, LENGTH)]
'''
COLLATE = '''
def collate(rows):
    """Rows of one length: every token is learned, and none is padding."""
    ids = torch.tensor([row["input_ids"] for row in rows])
    return {"input_ids": ids, "labels": ids.clone()}
'''


def data(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """Reads the texts: `train_texts` and `eval_texts`."""
    if parse_synthetic(run.options.data.train):
        return []
    assert facts.rows is not None
    parts = [_text_reader(facts)]
    lines = _asked(run, facts)
    return [*parts, Part("The same texts are held out.", lines + "\n" + PIECES, ("import numpy as np",))]


def _text_reader(facts: ScriptFacts) -> Part:
    rows = facts.rows
    assert rows is not None
    if rows.form is Form.TEXT:
        code = f'''
def read(paths):
    """The texts of files; lines end in a line feed, whatever they end in on disk."""
    texts = []
    for path in paths:
        with {opening(rows)} as file:
            texts.append(file.read().replace("\\r\\n", "\\n").replace("\\r", "\\n"))
    return texts
'''
        return Part("The texts.", code, ("import gzip",) if rows.is_packed else ())
    of_rows = reader(rows)
    column = literal(facts.text_columns[0])
    code = (
        of_rows.code.replace("def read(", "def read_rows(")
        + f'''
{CELL}

def read(paths):
    """The texts of a column, those that are blank left out."""
    return [cell for row in read_rows(paths) if (cell := text(row.get({column}))).strip()]
'''
    )
    return Part(of_rows.title, code, of_rows.imports)


def _asked(run: Resolved, facts: ScriptFacts) -> str:
    data = run.options.data
    assert facts.rows is not None
    is_text = facts.rows.form is Form.TEXT
    lines = [f"texts = read({literal(facts.rows.files)})"]
    if data.drop_duplicates and not is_text:
        lines = [FIRST_OF_EQUALS, *lines, "texts = first_of_equals(texts, lambda text: text)"]
    if facts.eval_rows is not None:
        return "\n".join(
            [*lines, "train_texts = texts", f"eval_texts = read({literal(facts.eval_rows.files)})"]
        )
    if not data.eval_fraction:
        return "\n".join([*lines, "train_texts, eval_texts = texts, []"])
    by_tails = [
        "parts = [head_and_tail(document) for document in texts]",
        "train_texts = [head for head, _ in parts]",
        "eval_texts = [tail for _, tail in parts if tail]",
    ]
    by_rows = [
        "count = min(round(len(texts) * FRACTION), len(texts) - 1)",
        "chosen = set(np.random.default_rng(SEED).permutation(len(texts))[:count].tolist())",
        "train_texts = [text for number, text in enumerate(texts) if number not in chosen]",
        "eval_texts = [text for number, text in enumerate(texts) if number in chosen]",
    ]
    fraction = f"FRACTION = {literal(data.eval_fraction)}"
    if is_text:
        return "\n".join([fraction, TAILS, *lines, *by_tails])
    inner = ["if len(texts) == 1:  # a single row is cut like a file", *(f"    {line}" for line in by_tails)]
    inner += ["else:  # the seed chooses", *(f"    {line}" for line in by_rows)]
    return "\n".join([fraction, TAILS, *lines, *inner])


def samples(run: Resolved) -> list[Part]:
    """Tokenizes: `train` and `evaluation`."""
    data = run.options.data
    found = parse_synthetic(data.train)
    if found is not None:
        samples = min(found[0], data.max_train_samples or found[0])
        code = f"""
random = np.random.default_rng(SEED)
ids = random.integers(0, config.get_text_config().vocab_size, ({samples}, {found[1]}))
train, evaluation = [{{"input_ids": row}} for row in ids.tolist()], []
"""
        return [Part("Random tokens, for timing.", code + COLLATE, ("import numpy as np", "import torch"))]
    first = f"[:{data.max_train_samples}]" if data.max_train_samples else ""
    evaluated = f"[:{data.max_eval_samples}]" if data.max_eval_samples else ""
    lines = [
        f"train = blocks(train_texts){first}",
        f"evaluation = blocks(eval_texts){evaluated} if eval_texts else []",
    ]
    code = "\n".join((BLOCKS, "", *lines, COLLATE))
    return [Part("Texts to blocks of tokens.", code, ("import torch",))]
