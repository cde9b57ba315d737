"""A stand-in for the module `pynvml` with one GPU."""

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


class FakeNvml:
    """Set `broken` to the names of functions that fail, `total` to the GPU's memory, `reasons` to what slows it."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 33554472  # noqa: N815 - the library's name

    def __init__(self, broken: set[str] | None = None, total: int = 8 << 30, count: int = 1) -> None:
        self.broken = broken or set()
        self.total = total
        self.count = count
        self.reasons = 0
        self.running: dict[int, int | None] = {}
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.broken:
            raise NVMLError(name)

    def nvmlInit(self) -> None:  # noqa: N802
        self._call("nvmlInit")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        self._call("nvmlSystemGetDriverVersion")
        return "580.65.06"

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> list[int]:  # noqa: N802
        self._call("nvmlDeviceGetCudaComputeCapability")
        return [8, 6]

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetHandleByIndex")
        if index >= self.count:
            raise NVMLError("no such GPU")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        """The UUID of GPU 1 is `GPU-1-uuid`."""
        self._call("nvmlDeviceGetHandleByUUID")
        return self.nvmlDeviceGetHandleByIndex(int(uuid.split("-")[1]))

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        self._call("nvmlDeviceGetName")
        return f"Fake GPU {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int) -> Any:  # noqa: N802
        self._call("nvmlDeviceGetMemoryInfo")
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(used=3 << 30, total=self.total, reserved=1 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        """As `running` tells: bytes by process id; None where the driver keeps them to itself."""
        self._call("nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.running.items()]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        self._call("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=40)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetPowerUsage")
        return 123_400

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetTemperatureV")
        return 61

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetTemperature")
        return 60

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetEnforcedPowerLimit")
        return 200_000

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetClockInfo")
        assert clock == 1, "NVML_CLOCK_SM"
        return 1410

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetMaxClockInfo")
        assert clock == 1, "NVML_CLOCK_SM"
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetCurrentClocksEventReasons")
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons")
        return self.reasons
