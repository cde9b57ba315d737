"""Benchmarks for tests: small plans, invented samples, and passes that measure nothing."""

import threading
from collections.abc import Callable, Sequence

from core.bench.plan import Kind, Plan, Rung
from core.bench.result import Machine, Pass, Result, Row, Surroundings
from core.bench.sample import Sample
from core.jobs import JobCancelled
from core.memory.forecast import Parts

MB = 1 << 20
MACHINE = Machine(
    title="Test GPU, 24 GB",
    processor="Test CPU",
    cores=8,
    memory=32 << 30,
    accelerator="Test GPU, 24 GB",
    system="Linux 6.1",
    versions={"hone": "0.1.0", "torch": "2.13.0"},
)
QUIET = Surroundings()
CPU = {"device": {"name": "cpu"}}


def rung(name: str, *, refusal: str = "", group: str = "", side: str = "", note: str = "") -> Rung:
    return Rung(name=name, title=name.title(), asked=CPU, refusal=refusal, group=group, side=side, note=note)


def plan(
    *rungs: Rung, passes: int = 2, steps: int = 4, kind: Kind = Kind.METHODS, model: str = "tiny"
) -> Plan:
    return Plan(kind=kind, title="Tiny BERT, 64 rows", rungs=rungs, steps=steps, passes=passes, model=model)


def sample(*seconds: float, peak: int = 100 * MB, samples_a_step: int = 8, **more: object) -> Sample:
    return Sample(
        device="cpu",
        seconds=seconds or (0.5, 0.4, 0.6, 0.5),
        samples_a_step=samples_a_step,
        rows=64,
        losses=(0.7,) * 5,
        first_loss=0.7,
        parts=Parts(weights=peak // 2, activations=peak - peak // 2),
        peak=peak,
        **more,  # type: ignore[arg-type]
    )


def measured(of: Rung, *seconds: float, peak: int = 100 * MB, surroundings: Surroundings = QUIET) -> Row:
    one = Pass(begun=1.0, sample=sample(*seconds, peak=peak), surroundings=surroundings)
    return Row(rung=of, passes=(one,))


def result(
    *rows: Row, begun: float = 1_760_000_000.0, machine: Machine = MACHINE, **of_plan: object
) -> Result:
    asked = plan(*(row.rung for row in rows), **of_plan)  # type: ignore[arg-type]
    return Result(plan=asked, machine=machine, begun=begun, ended=begun + 60, rows=rows, is_whole=True)


Answer = Pass | Callable[[], Pass]


class Takes:
    """Stands in for `core.bench.taking.Taking`: answers by a rung's name, one answer a pass; the last one stays.

    `taken` are the rungs' names in the order in which they were measured.
    """

    def __init__(self, **answers: Sequence[Answer]) -> None:
        self._answers = {name: list(found) for name, found in answers.items()}
        self.taken: list[str] = []

    def __call__(self, of: Rung, _plan: Plan) -> "_Take":
        self.taken.append(of.name)
        answers = self._answers.get(of.name, [])
        if not answers:
            return _Take(Pass(begun=1.0, sample=sample()))
        return _Take(answers.pop(0) if len(answers) > 1 else answers[0])


class _Take:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._killed = threading.Event()

    def run(self) -> Pass:
        if self._killed.is_set():
            raise JobCancelled("sample")
        answer = self._answer() if callable(self._answer) else self._answer
        if self._killed.is_set():
            raise JobCancelled("sample")
        return answer

    def kill(self) -> None:
        self._killed.set()
