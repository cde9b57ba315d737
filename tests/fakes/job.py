"""A stand-in for a short engine job: `python job.py SCENARIO`, the request on standard input."""

import sys
import time

import msgspec

from core.base.ceiling import Pace, reading, say
from core.base.errors import Fix
from core.base.jobs import FailureReport, JobFailure

if __name__ == "__main__":
    request = sys.stdin.buffer.read()
    print("a library says hello", file=sys.stderr)
    match sys.argv[1]:
        case "echo":
            sys.stdout.buffer.write(request)
        case "refuse":
            fixes = (Fix("Save it as UTF-8"),)
            error = FailureReport(title="The file can't be read", detail="data.csv, row 3", fixes=fixes)
            sys.stdout.buffer.write(msgspec.json.encode(JobFailure(error=error)))
            sys.exit(1)
        case "bug":
            raise RuntimeError("a bug in the fake job")
        case "progress":
            for done in (1, 2):
                print(f'{{"type":"progress","done":{done},"total":2}}', flush=True)
            sys.stdout.buffer.write(request)
        case "spin":
            with reading("A template", Pace.QUICK):
                while True:
                    pass
        case "eat":
            with reading("row 3 of a.parquet"):
                held = [b"x" * (10 << 20) for _ in range(100)]
        case "alive":
            for row in range(8):
                say(f"row {row}", Pace.QUICK)
                time.sleep(0.2)
            sys.stdout.buffer.write(request)
        case "hang":
            time.sleep(60)
