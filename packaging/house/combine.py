"""The table of the design with the places of overrides.tsv: combine.py MOVES > moves.tsv"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

rows = [line.split("\t") for line in Path(sys.argv[1]).read_text().splitlines()[1:]]
places = {row[0]: row[-1] for row in rows}
places |= dict(line.split("\t") for line in (HERE / "overrides.tsv").read_text().splitlines())
sys.stdout.write("".join(f"{old}\t{new}\n" for old, new in places.items()))
