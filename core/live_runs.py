"""The runs that train right now, whoever started them: how far each of them is, and how it ended.

Made to be asked every few seconds for days: a folder in which nothing has changed costs one look at its date, a run
that trains the ends of its two files.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from core import run_notes
from core.run_folder import RunFolder
from core.run_summary import story_at_end
from core.runs import run_title
from core.story import RunStory, State

SETTLING_SECONDS = 5.0
"""So long after its last change a folder is looked into again: the dates of files are coarse."""


@dataclass(frozen=True)
class LiveRun:
    """A run that trains or waits for its turn: its title, and how much of it is done (0 to 1; None: not known yet).

    `begun` is when its keeper was started, in unix seconds; `state` where it stood at the last look.
    """

    run: RunFolder
    title: str
    begun: float
    state: State
    share: float | None = None


@dataclass(frozen=True)
class EndedRun:
    """A run that was seen to train or wait and is over. `story` is what the ends of its files amount to."""

    run: RunFolder
    title: str
    state: State
    story: RunStory


class LiveRuns:
    """Keeps in mind which runs train. Ask it again and again, always in one thread."""

    def __init__(self) -> None:
        self._live: dict[Path, LiveRun] = {}
        self._total_steps: dict[Path, tuple[int, int]] = {}
        self._settled: dict[str, int] = {}

    @property
    def live(self) -> tuple[LiveRun, ...]:
        """Those that trained when they were last looked at, the newest first."""
        return tuple(sorted(self._live.values(), key=lambda live: live.begun, reverse=True))

    def follow(self, run: RunFolder, *, starts: bool = False) -> None:
        """Look at a run wherever its folder is; one that starts now is told of even if it is over at the first look."""
        if run.path in self._live:
            return
        state = run.state(story_at_end(run))
        if starts or not state.is_over:
            keeper = run.keeper_record()
            begun = time.time() if keeper is None else keeper.started
            self._live[run.path] = LiveRun(run, run_title(run), begun, state)

    def look(self, folder: Path) -> list[EndedRun]:
        """Look for runs that have come into `folder`, and at all that train; returns those that have ended."""
        for run in self._changed(folder):
            self.follow(run)
        ended = [end for live in list(self._live.values()) if (end := self._look_at(live)) is not None]
        for end in ended:
            del self._live[end.run.path]
            self._total_steps.pop(end.run.path, None)
        return ended

    def _look_at(self, live: LiveRun) -> EndedRun | None:
        """Find out how far a run is; how it ended, if it did."""
        run = live.run
        live = replace(live, title=run_notes.read(run.path).title or live.title)
        keeper = run.keeper_record()
        attempt = 0 if keeper is None else keeper.attempt
        known, total = self._total_steps.get(run.path, (0, None))
        story = story_at_end(run, and_beginning=known < attempt or total is None)
        state = run.state(story)
        if state.is_over:
            return EndedRun(run, live.title, state, story_at_end(run, and_beginning=True))
        if story.plan is not None and (total is None or story.plan.attempt >= attempt):
            total = story.plan.total_steps
            self._total_steps[run.path] = story.plan.attempt, total
        begun = live.begun if keeper is None else keeper.started
        share = live.share
        if total and story.step:  # a long evaluation may have pushed the newest step out of sight
            share = min(1.0, story.step / total)
        self._live[run.path] = replace(live, begun=begun, share=share, state=state)
        return None

    def _changed(self, folder: Path) -> Iterator[RunFolder]:
        """Runs that might have begun to train since they were last looked at."""
        for name, changed in _dates(folder):
            if self._settled.get(name) == changed or (path := Path(name)) in self._live:
                continue
            run = RunFolder(path)
            if run.keeper_file.exists() and run.exit_record() is None:
                yield run
            if path not in self._live and abs(time.time() - changed / 1e9) > SETTLING_SECONDS:
                self._settled[name] = changed


def _dates(folder: Path) -> list[tuple[str, int]]:
    """When something was last put into each folder in `folder`, or taken out of it: nanoseconds since 1970."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    found.append((entry.path, entry.stat().st_mtime_ns))
    except OSError:
        return []
    return found
