"""Code that reads rows as Hone read them, with the same encoding, quoting and header, and holds out the same ones."""

from core.script.facts import Form, Rows
from core.script.parts import Part, literal

CELL = '''
def text(value):
    """A value as text: a whole number without its point, nothing where it is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
'''

FIRST_OF_EQUALS = '''
def first_of_equals(rows, key):
    """The rows whose key no earlier one has."""
    seen = set()
    return [row for row in rows if key(row) not in seen and not seen.add(key(row))]
'''

STRATIFIED = '''
def hold_out(classes, fraction):
    """Row numbers to train on and to hold out: the seed shuffles all rows, and each class gives its first ones.

    A class gives its share rounded down; those with the largest remainders give one more, until the whole is
    right. A class always keeps one row to train on.
    """
    classes, order = np.asarray(classes), np.random.default_rng(SEED).permutation(len(classes))
    kinds, sizes = np.unique(classes, return_counts=True)
    shares = np.floor(sizes * fraction).astype(int)
    missing = round(len(classes) * fraction) - shares.sum()
    shares[np.argsort(shares - sizes * fraction, kind="stable")[: max(0, missing)]] += 1
    shares = np.minimum(shares, sizes - 1)
    chosen = [row for kind, share in zip(kinds, shares) for row in order[classes[order] == kind][:share]]
    return sorted(set(range(len(classes))) - set(map(int, chosen))), sorted(map(int, chosen))
'''

PLAIN_SPLIT = '''
def hold_out(count, fraction):
    """Row numbers to train on and to hold out: the first ones in the order into which the seed shuffles all rows."""
    chosen = np.random.default_rng(SEED).permutation(count)[: min(round(count * fraction), count - 1)]
    return sorted(set(range(count)) - set(map(int, chosen))), sorted(map(int, chosen))
'''


def reader(rows: Rows) -> Part:
    """A function `read(paths)` that gives dictionaries, one a row."""
    body, imports = _body(rows)
    begin = 'def read(paths):\n    """The rows of files, as dictionaries."""\n    rows = []\n'
    code = f"{begin}{_each(rows, body)}    return rows\n"
    needs = () if rows.form is Form.PARQUET else ("import gzip",) if rows.is_packed else ()
    return Part("The rows, read as Hone read them.", code, (*imports, *needs))


def opening(rows: Rows) -> str:
    """How a text file is opened."""
    opened = "gzip.open(path, 'rt', " if rows.is_packed else "open(path, "
    return f'{opened}encoding={literal(rows.encoding)}, newline="")'.replace("'rt'", '"rt"')


def _each(rows: Rows, body: str) -> str:
    if rows.form is Form.PARQUET:
        return f"    for path in paths:\n{_indented(body, 8)}"
    return f"    for path in paths:\n        with {opening(rows)} as file:\n{_indented(body, 12)}"


def _indented(code: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" if line else "\n" for line in code.strip("\n").split("\n"))


def _body(rows: Rows) -> tuple[str, tuple[str, ...]]:
    match rows.form:
        case Form.PARQUET:
            return "rows += pq.read_table(path).to_pylist()", ("import pyarrow.parquet as pq",)
        case Form.JSON:
            return _JSON, ("import json",)
        case Form.JSON_LINES:
            return "rows += [json.loads(line) for line in file if line.strip()]", ("import json",)
        case Form.CONLL:
            return _conll(rows), ()
    return _delimited(rows), ("import csv",)


_JSON = """
found = json.load(file)
if isinstance(found, dict):  # {"data": [...]}
    found = next(value for value in found.values() if isinstance(value, list))
rows += found
"""


def _delimited(rows: Rows) -> str:
    quoting = "csv.QUOTE_MINIMAL" if rows.is_quoted or not rows.delimiter else "csv.QUOTE_NONE"
    delimiter = literal(rows.delimiter or "\x1f")
    header = 'names = [name.strip() or f"column {number}" for number, name in enumerate(next(lines), 1)]'
    if not rows.has_header:
        header = f"names = {literal(rows.columns)}"
    return f"""
csv.field_size_limit(2**31 - 1)
lines = csv.reader(file, delimiter={delimiter}, quoting={quoting})
{header}
filled = (line for line in lines if len(line) == len(names) and any(cell.strip() for cell in line))
rows += [dict(zip(names, line)) for line in filled]
"""


CONLL = """
width, sentence = 0, []
for line in [*file, ""]:
    fields = line.rstrip("\\r\\n ").split("\\t") if "\\t" in line else line.split()
    if not line.strip() or fields[0] == "-DOCSTART-":
        {filtered}
        if sentence:
            rows.append({{{columns}}})
        sentence = []
        continue
    width = width or (0 if line.startswith("#") else len(fields))
    if len(fields) == width and not (fields[0] == "#" and "=" in fields[1:3]):
        sentence.append(fields)
"""


def _conll(rows: Rows) -> str:
    """A token a line, an empty line after a sentence. CoNLL-U has ten columns, of which the second and fourth count."""
    names = rows.columns
    if len(names) == 2:
        columns = (
            f"{literal(names[0])}: [fields[1 if width == 10 else 0] for fields in sentence], "
            f"{literal(names[1])}: [fields[3 if width == 10 else 1] for fields in sentence]"
        )
        filtered = "sentence = [fields for fields in sentence if width != 10 or fields[0].isdecimal()]"
        return CONLL.format(filtered=filtered, columns=columns)
    columns = ", ".join(
        f"{literal(name)}: [fields[{place}] for fields in sentence]" for place, name in enumerate(names)
    )
    return CONLL.format(filtered="", columns=columns).replace("        \n", "")
