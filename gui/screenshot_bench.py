"""Pictures of the page Benchmark: with results, while it measures, and with what was measured before."""

import threading
from collections.abc import Callable, Iterator

from core.bench import kept
from core.bench.plan import Kind
from core.bench.result import Result
from core.bench.running import Underway
from gui.invented_benchmarks import (
    BEGUN,
    NOTEBOOK,
    PC,
    devices_result,
    methods_result,
    updated_result,
)
from gui.pages.benchmark import BenchmarkPage
from gui.sidebar import Place
from gui.window import MainWindow

MEASURED, DAY = 5, 86_400


class InventedBench:
    """A benchmark that has measured some rungs and stays at the next one until it is stopped."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.not_kept = ""
        self._began: Callable[[Underway], None] = lambda _: None
        self._stopped = threading.Event()

    def heed(self, began: Callable[[Underway], None]) -> None:
        """Who is told of the pass that begins."""
        self._began = began

    def run(self) -> Iterator[Result]:
        """The result as it is, and then nothing more."""
        yield self.result
        rungs = self.result.plan.rungs
        self._began(Underway(rungs[MEASURED], 1, MEASURED, 3 * len(rungs), 25 * 60))
        self._stopped.wait()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()


class BenchShots:
    """Each of them leaves the page to the next.

    Args:
        window: What is shown.
    """

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._methods, self._devices, self._updated = methods_result(), devices_result(), updated_result()
        on_pc = methods_result(PC, speed=2.4, begun=BEGUN + 3 * DAY)
        broken_off = methods_result(NOTEBOOK, speed=0.2, done=3, begun=BEGUN - 20 * DAY)
        for result in (self._methods, self._devices, self._updated, on_pc, broken_off):
            kept.save(result)

    def shots(self) -> dict[str, Callable[[], None]]:
        """What brings the window there, by the name of the picture."""
        return {
            "bench-methods": self._finished,
            "bench-devices": self._with_published,
            "bench-earlier": self._earlier,
            "bench-opened": self._opened,
            "bench-compared": self._compared,
            "bench-running": self._running,
        }

    def tidy(self) -> None:
        """End what is being measured."""
        benchmark = self._window.pages.benchmark
        if benchmark is not None:
            benchmark.measuring.cancel()

    def _page(self) -> BenchmarkPage:
        self._window.go_to(Place.BENCHMARK)
        return self._window.pages.benchmark_page()

    def _finished(self) -> None:
        page = self._page()
        page.methods.strip.hide()  # it says that the one before was called off
        page.methods.show_result(self._methods)
        page.tabs.setCurrentWidget(page.methods)

    def _with_published(self) -> None:
        page = self._page()
        page.devices.show_result(self._devices)
        page.devices.view.show_published(True)
        page.tabs.setCurrentWidget(page.devices)

    def _earlier(self) -> None:
        page = self._page()
        page.tabs.setCurrentWidget(page.earlier)
        page.earlier.show_list()

    def _opened(self) -> None:
        page = self._page()
        page.tabs.setCurrentWidget(page.earlier)
        page.earlier.show_result(self._devices)

    def _compared(self) -> None:
        page = self._page()
        page.tabs.setCurrentWidget(page.earlier)
        page.earlier.show_comparison(self._methods, self._updated)

    def _running(self) -> None:
        page = self._page()
        page.tabs.setCurrentWidget(page.methods)
        page.methods.strip.hide()
        result = methods_result(done=MEASURED)
        page.measuring.start(Kind.METHODS, lambda: result.plan, lambda _plan: InventedBench(result))
