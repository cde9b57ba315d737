"""The processor's temperature as Linux tells it.

psutil reads every sensor there is for it, those of disks included, which wakes them; this reads one file.
"""

from pathlib import Path

HWMON = Path("/sys/class/hwmon")

CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Drivers of the sensors within processors: Intel, AMD (two of them), ARM boards."""

LABELS = ("Package id 0", "Tdie")
"""The sensors to prefer: the whole package; AMD's true temperature, where the first one is offset for the fan."""


def processor_sensor(folder: Path = HWMON) -> Path | None:
    """The file that holds the processor's temperature in thousandths of a degree Celsius; None where there is none."""
    chips = {_text(chip / "name"): chip for chip in sorted(folder.glob("hwmon*"), reverse=True)}
    chip = next((chips[name] for name in CHIPS if name in chips), None)
    if chip is None:
        return None
    labels = {_text(file): file for file in chip.glob("temp*_label")}
    named = next((labels[label] for label in LABELS if label in labels), chip / "temp1_label")
    sensor = named.with_name(named.name.replace("_label", "_input"))
    return sensor if sensor.is_file() else None


def read_sensor(sensor: Path) -> float:
    """Degrees Celsius.

    Raises:
        OSError: The sensor can't be read.
        ValueError: It holds no number.
    """
    return int(sensor.read_text(encoding="ascii")) / 1000


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
