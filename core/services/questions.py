"""What the window and the command line ask the engine: one function a question, each with the answer it gets."""

import msgspec

from core.base.jobs import EngineJob, TellProgress, ask_engine, decoded
from core.memory.model import Forecast, ForecastRequest, ModelReport, ModelRequest
from core.options.device_support import MachineReport
from core.services.devices import DeviceCheckReport, DeviceCheckRequest
from core.services.hub import ConfigFetched, ConfigRequest
from core.services.inspect import DataReport, InspectRequest

CHECK_SECONDS = 120.0
"""How long a device check may take: 30 s of comparing, on a slow disk as much for loading torch, and some to spare."""

FETCH_SECONDS = 60.0
"""How long fetching a file of a few KB may take: the Hub may keep silent for 10 s, and is asked again now and then."""


def ask_devices() -> MachineReport:
    """What this machine can train on; see `EngineJob.ask` for what it raises."""
    return decoded("devices", ask_engine("devices"), MachineReport)


def ask_device_check(request: DeviceCheckRequest) -> DeviceCheckReport:
    """How a device compares with the CPU; see `EngineJob.ask` for what it raises."""
    answer = ask_engine("check-device", msgspec.json.encode(request), CHECK_SECONDS)
    return decoded("check-device", answer, DeviceCheckReport)


def ask_inspect(request: InspectRequest, tell: TellProgress | None = None) -> DataReport:
    """What is in a data file or folder; see `EngineJob.ask` for its arguments and for what it raises."""
    answer = EngineJob("inspect").ask(msgspec.json.encode(request), tell=tell)
    return decoded("inspect", answer, DataReport)


def ask_check_model(request: ModelRequest) -> ModelReport:
    """What a model is, without its weights; see `EngineJob.ask` for what it raises."""
    return decoded("check-model", ask_engine("check-model", msgspec.json.encode(request)), ModelReport)


def ask_fetch_config(source: str) -> ConfigFetched:
    """Fetch what describes a model on the Hub; see `EngineJob.ask` for what it raises."""
    request = msgspec.json.encode(ConfigRequest(source=source))
    return decoded("fetch-config", ask_engine("fetch-config", request, FETCH_SECONDS), ConfigFetched)


def ask_forecast(request: ForecastRequest) -> Forecast:
    """How much memory a run would take; see `EngineJob.ask` for what it raises."""
    return decoded("forecast", ask_engine("forecast", msgspec.json.encode(request)), Forecast)
