"""An `ssh` that leads to a computer which lies, breaks or is silent: `liar.py FOLDER MODE`, with only what Python has.

It speaks the protocol of `core.hosts.far` of itself. What it has is in FOLDER: `greeting.json`, what it is asked in
`asked.txt`, a line each, and `lied` once it has done what `MODE` stands for. An honest one trains for ever.
"""

import json
import os
import sys
import time
from hashlib import sha256
from pathlib import Path

NEVER = 3600.0
STREAMS = ("events.jsonl", "machine.jsonl", "log.txt")
EVENTS = b"".join(
    b'{"type":"step_finished","attempt":1,"time":1.0,"step":%d,"loss":1.0}\n' % n for n in range(5)
)
MODEL = b"weights" * 1000


class Liar:
    """Answers as an honest computer does."""

    def __init__(self, folder):
        self.folder = folder
        self.streams = {"events.jsonl": EVENTS, "machine.jsonl": b"", "log.txt": b"training\n"}
        self.files = {"model/model.safetensors": MODEL}
        self.is_alive, self.has_ended, self.state = True, False, None
        self.exit = b'{"time":1.0,"code":0,"reason":"done","attempt":1}'

    def lie(self):
        (self.folder / "lied").touch()

    # --- What every session does

    def serve(self):
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            kind = asked.pop("type")
            with (self.folder / "asked.txt").open("a") as file:
                file.write(f"{kind}\n")
            getattr(self, kind.lower())(**asked)

    def say(self, answer=None, content=b"", **head):
        self.write(
            json.dumps({"size": len(content), "error": None, "answer": answer} | head).encode()
            + b"\n"
            + content
        )

    def write(self, content):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def endlessly(self, block=b"x" * 65536):
        self.lie()
        while True:
            self.write(block)

    def silence(self):
        self.lie()
        time.sleep(NEVER)

    def drip(self):
        self.lie()
        while True:
            self.write(b"x")
            time.sleep(0.5)

    # --- What it is asked

    def hello(self):
        self.say(json.loads((self.folder / "greeting.json").read_text()))

    def missing(self, files):
        self.say(dict.fromkeys(files, 0))

    def put(self, files):
        for _digest, offset, size in files:
            sys.stdin.buffer.read(size - offset)
        self.say()

    def maketree(self, files):
        self.say("/tree")

    def start(self, attempt, **_rest):
        self.say(attempt)

    def hashes(self, sizes, **_rest):
        found = {name: self.streams[name][:size] for name, size in sizes.items()}
        self.say(
            {
                name: sha256(part).hexdigest() if len(part) == sizes[name] else ""
                for name, part in found.items()
            }
        )

    def forward(self, request, **_rest):
        if request["action"] == "kill":
            self.is_alive, self.has_ended = False, True
        self.say(True)

    def watch(self, sizes, **_rest):
        new = {name: self.streams[name][size:] for name, size in sizes.items() if self.streams[name][size:]}
        time.sleep(0 if new else 0.05)
        self.tell(
            [{"name": name, "size": len(part), "stamp": None} for name, part in new.items()],
            b"".join(new.values()),
        )

    def tell(self, pieces=(), content=b"", **more):
        known = {"is_alive": self.is_alive, "has_ended": self.has_ended, "state": self.state}
        self.say({"pieces": pieces, "shrunk": [], **known, **more}, content)

    def results(self, **_rest):
        self.say({name: [len(content), sha256(content).hexdigest()] for name, content in self.files.items()})

    def get(self, path, offset=0, **_rest):
        self.say(content=({"exit.json": self.exit} | self.files | self.streams)[path][offset:])


def silent(asked):
    """One that never answers this question."""
    return type("Silent", (Liar,), {asked.lower(): lambda self, **_rest: self.silence()})


def saying(asked, answer, **head):
    """One that answers this question so."""

    def lie(self, **_rest):
        self.lie()
        self.say(answer, **head)

    return type("Saying", (Liar,), {asked.lower(): lie})


def telling(*pieces, content=b"", **more):
    """One that sends these pieces as news: name, size and stamp."""

    def lie(self, **_rest):
        self.lie()
        self.tell(
            [dict(zip(("name", "size", "stamp"), piece, strict=True)) for piece in pieces], content, **more
        )

    return type("Telling", (Liar,), {"watch": lie})


def over(*kinds, **has):
    """One whose run has ended, with these attributes."""

    class Over(*kinds, Liar):
        def __init__(self, folder):
            super().__init__(folder)
            self.is_alive, self.has_ended, self.state = False, True, "finished"
            for name, value in has.items():
                self.lie()
                setattr(self, name, value)

        def results(self, **_rest):
            self.lie()
            super().results()

    return Over


class Greets(Liar):
    """Greets otherwise."""

    change = {}

    def hello(self):
        self.lie()
        self.say(json.loads((self.folder / "greeting.json").read_text()) | self.change)


def greeting(**change):
    return type("Greeting", (Greets,), {"change": change})


class SilentAtOnce(Liar):
    def serve(self):
        self.silence()


class ClosesAtOnce(Liar):
    def serve(self):
        self.lie()


class ClosesItsOutput(Liar):
    def watch(self, **_rest):
        self.lie()
        os.close(1)
        time.sleep(NEVER)


class PrintsBeforeItGreets(Liar):
    def serve(self):
        self.endlessly()


class PrintsLinesBeforeItGreets(Liar):
    def serve(self):
        self.endlessly(b"Welcome!\n" * 1000)


class DripsBeforeItGreets(Liar):
    def serve(self):
        self.drip()


class ComplainsEndlessly(Liar):
    def watch(self, **_rest):
        self.lie()
        while True:
            os.write(2, b"no" * 65536)


class GreetsNoJson(Liar):
    def hello(self):
        self.lie()
        self.write(b'{"size":0,"answer":nothing}\n')


class Refuses(Liar):
    def start(self, **_rest):
        self.lie()
        fix = {"label": "Press this", "changes": {"data.train": "/etc/passwd"}}
        self.say(error={"title": "no " * 700_000, "detail": "\x1b[31m", "fixes": [fix]})


class AnswersWithoutEnd(Liar):
    def watch(self, **_rest):
        self.write(b'{"size":0,"answer":"')
        self.endlessly()


class AnswersDeeply(Liar):
    def watch(self, **_rest):
        self.lie()
        self.write(b'{"size":0,"answer":' + b"[" * 500_000 + b"\n")


class StopsAmidAPiece(Liar):
    def watch(self, **_rest):
        self.tell([{"name": "log.txt", "size": 10**6, "stamp": None}])
        self.silence()

    def say(self, answer=None, content=b"", **head):
        is_news = isinstance(answer, dict) and "pieces" in answer
        super().say(answer, content, **(head | {"size": 10**6} if is_news else head))


class DripsAPiece(StopsAmidAPiece):
    silence = Liar.drip


class SendsExamplesEndlessly(Liar):
    number = 0

    def watch(self, **_rest):
        self.lie()
        names = [f"examples/{self.number + n}.png" for n in range(1500)]
        self.number += len(names)
        self.tell([{"name": name, "size": 0, "stamp": [1, 1]} for name in names])


class SendsALargeExample(Liar):
    def watch(self, stamps, **rest):
        if stamps:
            super().watch(**rest)
            return
        size = 50_000_000
        self.lie()
        self.tell([{"name": "examples/1.png", "size": size, "stamp": [1, 1]}], bytes(size))


class SendsEventsEndlessly(Liar):
    def watch(self, **_rest):
        self.lie()
        content = b'{"type":"unknown"}\n' * 50_000
        self.tell([{"name": "events.jsonl", "size": len(content), "stamp": None}], content)


class ForgetsEvents(Liar):
    """A disk rolled back after a power cut."""

    def __init__(self, folder):
        super().__init__(folder)
        self.streams["events.jsonl"] = EVENTS[: EVENTS.index(b"\n") + 1]
        self.lie()


class HasOtherEvents(ForgetsEvents):
    def __init__(self, folder):
        super().__init__(folder)
        self.streams["events.jsonl"] = EVENTS.replace(b"1.0", b"2.0")


class HasNoEvents(ForgetsEvents):
    def __init__(self, folder):
        super().__init__(folder)
        self.streams = dict.fromkeys(STREAMS, b"")


class ShrinksAgainAndAgain(Liar):
    def watch(self, sizes, **_rest):
        self.lie()
        line = [{"name": "events.jsonl", "size": 3, "stamp": None}] if not sizes["events.jsonl"] else []
        self.tell(line, b"{}\n" if line else b"", shrunk=[] if line else list(STREAMS))


class IgnoresKill(Liar):
    def forward(self, **_rest):
        self.lie()
        self.say(False)


class ClaimsToHaveKilled(Liar):
    def forward(self, **_rest):
        self.lie()
        self.say(True)


class ObeysAndIsSilent(Liar):
    def forward(self, **rest):
        self.lie()
        super().forward(**rest)

    def results(self, **_rest):
        time.sleep(NEVER)


class AnnouncesMore(Liar):
    def get(self, path, **_rest):
        self.lie()
        self.say(size=10**13)
        self.endlessly()


class AnnouncesLess(Liar):
    def get(self, path, **rest):
        if path.startswith("model/"):
            self.say(content=b"short")
        super().get(path, **rest)


class SendsMoreThanAnnounced(Liar):
    def get(self, path, **rest):
        super().get(path, **rest)
        if path.startswith("model/"):
            self.endlessly()


class SendsAnotherFile(Liar):
    def get(self, path, offset=0, **_rest):
        if path.startswith("model/"):
            self.say(content=bytes(len(MODEL) - offset))
        else:
            super().get(path, offset)


class DripsAResult(Liar):
    def get(self, path, **rest):
        if path.startswith("model/"):
            self.say(size=len(MODEL))
            self.drip()
        super().get(path, **rest)


class ClosesAmidAResult(Liar):
    def get(self, path, **rest):
        if path.startswith("model/"):
            self.say(size=len(MODEL))
            self.write(MODEL[:100])
            sys.exit()
        super().get(path, **rest)


WRONG = "sends something invalid"
OTHER = "has another version of Hone"
GONE = "was closed"
NOT_SEEN = {"pieces": [], "shrunk": [], "is_alive": True, "has_ended": False}
EVIL = b"evil"

BEGINNING = {
    "silent at once": (SilentAtOnce, ""),
    "silent to Hello": (silent("Hello"), ""),
    "closes at once": (ClosesAtOnce, GONE),
    "prints endlessly before it greets": (PrintsBeforeItGreets, WRONG),
    "prints lines endlessly before it greets": (PrintsLinesBeforeItGreets, OTHER),
    "drips before it greets": (DripsBeforeItGreets, ""),
    "greets with no JSON": (GreetsNoJson, OTHER),
    "greets with another protocol": (greeting(protocol=99), OTHER),
    "greets with another version": (greeting(source="0" * 64), OTHER),
    "greets with a clock of 1e300": (greeting(time=1e300), ""),
    "greets with a home of 3 MB": (greeting(home="/x" * 1_500_000), ""),
    "greets with a home of 30 MB": (greeting(home="/x" * 15_000_000), WRONG),
    "silent to Missing": (silent("Missing"), ""),
    "silent to Put": (silent("Put"), ""),
    "silent to MakeTree": (silent("MakeTree"), ""),
    "silent to Start": (silent("Start"), ""),
    "lacks a negative part": (saying("Missing", {"0" * 64: -1}), WRONG),
    "lacks another file": (saying("Missing", {"0" * 64: 1}), WRONG),
    "lacks files without end": (saying("Missing", {f"{n:064}": 1 for n in range(100_000)}), WRONG),
    "refuses in 2 MB of words": (Refuses, "no no no"),
    "begins attempt 10,000,000": (saying("Start", 10**7), WRONG),
    "begins attempt -3": (saying("Start", -3), WRONG),
    "begins attempt 10^15": (saying("Start", 10**15), WRONG),
    "begins an attempt in words": (saying("Start", "first"), WRONG),
    "lets bytes follow that nobody asked for": (saying("Start", 1, size=10), WRONG),
}
"""What it does while a run is sent there and begun, and what is said of it; nothing while it may still answer."""

FOLLOWING = {
    "is honest": (Liar, ""),
    "silent to Hashes": (silent("Hashes"), ""),
    "silent to Watch": (silent("Watch"), ""),
    "silent to Forward": (silent("Forward"), ""),
    "closes its output": (ClosesItsOutput, GONE),
    "complains endlessly": (ComplainsEndlessly, WRONG),
    "answers without end": (AnswersWithoutEnd, WRONG),
    "answers deeply": (AnswersDeeply, WRONG),
    "stops amid a piece": (StopsAmidAPiece, ""),
    "drips a piece": (DripsAPiece, ""),
    "a piece of -1 bytes": (telling(("log.txt", -1, None)), WRONG),
    "a piece of 10^12 bytes": (telling(("log.txt", 10**12, None)), WRONG),
    "an answer of 10^12 bytes": (saying("Watch", NOT_SEEN, size=10**12), WRONG),
    "a piece of another length": (telling(("log.txt", 5, None), content=b"123"), WRONG),
    "a piece for run.toml": (telling(("run.toml", 4, [1, 1]), content=EVIL), WRONG),
    "a piece for run.toml without a stamp": (telling(("run.toml", 4, None), content=EVIL), WRONG),
    "a piece for ../x": (telling(("examples/../../x", 4, [1, 1]), content=EVIL), WRONG),
    "a piece for examples/..": (telling(("examples/..", 4, [1, 1]), content=EVIL), WRONG),
    "a piece for examples/a/b": (telling(("examples/a/b", 4, [1, 1]), content=EVIL), WRONG),
    "a piece for validation.json/x": (telling(("validation.json/x", 4, [1, 1]), content=EVIL), WRONG),
    "a piece with a zero byte in its name": (telling(("examples/\0", 4, [1, 1]), content=EVIL), WRONG),
    "a piece with a name of 300 letters": (
        telling(("examples/" + "x" * 300, 4, [1, 1]), content=EVIL),
        "too long",
    ),
    "an example of 50 MB": (SendsALargeExample, ""),
    "examples without end": (SendsExamplesEndlessly, WRONG),
    "events without end": (SendsEventsEndlessly, ""),
    "events that aren't any": (telling(("events.jsonl", 6, None), content=b"\xff\0[[[\n"), ""),
    "fewer events than here": (ForgetsEvents, ""),
    "other events than here": (HasOtherEvents, ""),
    "no events any more": (HasNoEvents, ""),
    "shrinks again and again": (ShrinksAgainAndAgain, WRONG),
    "hashes that aren't any": (saying("Hashes", {"events.jsonl": [1]}), WRONG),
    "its folder is gone": (telling(is_gone=True), "is gone"),
    "a state that isn't any": (telling(state="bored"), WRONG),
    "ignores End now": (IgnoresKill, ""),
    "claims to have obeyed": (ClaimsToHaveKilled, ""),
    "obeys, and is silent then": (ObeysAndIsSilent, ""),
    "ends without a report": (over(is_alive=False, has_ended=False), "without a report"),
    "ends, and is silent to Results": (over(silent("Results")), ""),
    "ends with a damaged exit.json": (over(exit=b'{"time":'), WRONG),
    "ends with an exit.json of 10 MB": (over(exit=b" " * 10_000_000), WRONG),
    "ends with attempt 900,000": (
        over(exit=b'{"time":1.0,"code":0,"reason":"done","attempt":900000}'),
        "done",
    ),
    "announces 10 TB": (over(AnnouncesMore), WRONG),
    "a result of -1 bytes": (over(saying("Results", {"model/x": [-1, "0" * 64]})), WRONG),
    "a result of 10 TB": (over(saying("Results", {"model/x": [10**13, "0" * 64]})), "too full"),
    "a result without a hash": (over(saying("Results", {"model/x": [1, "abc"]})), WRONG),
    "a result that has another size": (over(AnnouncesLess), WRONG),
    "a result without end": (over(SendsMoreThanAnnounced), "done"),
    "a result that is another file": (over(SendsAnotherFile), WRONG),
    "a result that drips": (over(DripsAResult), ""),
    "a result that breaks off": (over(ClosesAmidAResult), GONE),
    "a result called ../x": (over(files={"model/../../x": EVIL}), WRONG),
    "a result called run.toml": (over(files={"run.toml": EVIL}), WRONG),
    "a result called model": (over(files={"model": EVIL}), WRONG),
    "a result that is file and folder": (over(files={"model/a": EVIL, "model/a/b": EVIL}), WRONG),
    "no results": (over(files={}), "done"),
}
"""The same while a run that has begun there is followed."""

if __name__ == "__main__":
    try:
        (BEGINNING | FOLLOWING)[sys.argv[2]][0](Path(sys.argv[1])).serve()
    except BrokenPipeError:
        os._exit(1)
