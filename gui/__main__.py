"""Where Hone begins: `hone`, `python -m gui` and the bundle's executable.

Before Qt is imported, this module checks on Linux that Qt can open a window: without a screen, or without a system
library that its platform plugin needs, Qt would abort the process.
"""

import ctypes
import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from core.base.language import _, split_off
from core.base.processes import foreign_environment
from core.cli import program

APPLE_SCRIPT = (
    "osascript",
    "-e", "on run words",
    "-e", 'display alert "Hone" message (item 1 of words) as critical',
    "-e", "end run",
)  # fmt: skip

LINUX_DIALOGS = (
    ("zenity", "--error", "--no-markup", "--title=Hone", "--width=480", "--text"),
    ("kdialog", "--title", "Hone", "--error"),
    ("notify-send", "Hone"),
)
"""Programs of GNOME, KDE and other desktops that show a message, their last argument."""


def show_message(message: str) -> None:
    """Print a message and, if no terminal is attached, show it in a box; returns at once."""
    if sys.stderr is not None:
        print(message, file=sys.stderr, flush=True)
    if sys.platform == "win32":
        icon_error = 0x10
        if not ctypes.windll.kernel32.GetConsoleWindow():
            ctypes.windll.user32.MessageBoxW(None, message, "Hone", icon_error)
    elif not has_terminal() and (command := dialog_command()):
        null = subprocess.DEVNULL
        environment = foreign_environment()
        subprocess.Popen(
            [*command, message], stdin=null, stdout=null, stderr=null, env=environment, start_new_session=True
        )


def has_terminal() -> bool:
    return any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))


def dialog_command(
    system: str = sys.platform,
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> tuple[str, ...]:
    """The command that shows its last argument in a box; empty if there is none, or no screen."""
    if system == "darwin":
        return APPLE_SCRIPT
    if not any(environment.get(variable) for variable, _answers in DESKTOPS.values()):
        return ()
    return next((command for command in LINUX_DIALOGS if which(command[0])), ())


def _wayland_answers() -> bool:
    wayland = ctypes.CDLL("libwayland-client.so.0")
    wayland.wl_display_connect.restype = ctypes.c_void_p
    display = wayland.wl_display_connect(None)
    if display is not None:
        wayland.wl_display_disconnect(ctypes.c_void_p(display))
    return display is not None


def _x11_answers() -> bool:
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    refused = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return not refused


DESKTOPS = {"wayland": ("WAYLAND_DISPLAY", _wayland_answers), "xcb": ("DISPLAY", _x11_answers)}
"""By Qt's name of a platform: the variable that names its screen, and whether that screen accepts a connection."""


def why_no_window(
    environment: Mapping[str, str] = os.environ,
    load: Callable[[str], object] = ctypes.CDLL,
    answers: Callable[[str], bool] | None = None,
) -> str:
    """Why Qt can't open a window and what to do; empty if it can. Everywhere but on Linux, Qt needs nothing.

    Args:
        environment: Names the screens and, in QT_QPA_PLATFORM, the platforms Qt may use.
        load: Loads a library by its path; raises OSError.
        answers: Whether the screen of a platform accepts a connection.
    """
    if not sys.platform.startswith("linux"):
        return ""
    requested = environment.get("QT_QPA_PLATFORM", "")
    platforms = [re.split("[:-]", name)[0].lower() for name in requested.split(";") if name]
    platforms = platforms or [
        name for name, (variable, _ask) in DESKTOPS.items() if environment.get(variable)
    ]
    if not platforms:
        return _("There is no screen here to open the window on; `hone train RUN.hone` trains without one.")
    reason = _plugin_problem(platforms, requested, load)
    if reason or any(name not in DESKTOPS for name in platforms):
        return reason
    answers = answers or (lambda platform: DESKTOPS[platform][1]())
    try:
        if any(answers(platform) for platform in platforms):
            return ""
    except OSError:  # the library to ask with isn't there
        return ""
    screens = ", ".join(f"{DESKTOPS[name][0]}={environment.get(DESKTOPS[name][0], '')}" for name in platforms)
    return _(
        "The window can't be opened: the screen doesn't answer ({screens}).\n"
        "Start Hone from the desktop or from a terminal on it; over a network, with `ssh -X`, and as yourself, not as "
        "another user. If QT_QPA_PLATFORM is set, start Hone without it.\n"
        "`hone train RUN.hone` trains without a window."
    ).format(screens=screens)


def _plugin_problem(platforms: list[str], requested: str, load: Callable[[str], object]) -> str:
    """Why none of Qt's plugins for these platforms can be loaded; empty if one can."""
    found = importlib.util.find_spec("PySide6")
    package = Path((found.submodule_search_locations or ("",))[0]) if found is not None else Path()
    plugins = {path.stem.removeprefix("libq"): path for path in package.glob("Qt/plugins/platforms/libq*.so")}
    if not plugins or os.environ.get("QT_PLUGIN_PATH") or os.environ.get("QT_QPA_PLATFORM_PLUGIN_PATH"):
        return ""  # Qt's plugins are elsewhere
    missing: dict[str, None] = {}
    for plugin in (plugins[name] for name in platforms if name in plugins):
        try:
            load(str(plugin))
        except OSError as error:
            missing |= dict.fromkeys(missing_libraries(plugin, error))
        else:
            return ""
    if not missing:
        return _(
            "The window can't be opened: QT_QPA_PLATFORM={value} names no platform that this Qt has ({known}).\n"
            "Start Hone without this variable, and Qt finds the screen by itself.\n"
            "`hone train RUN.hone` trains without a window."
        ).format(value=requested, known=", ".join(sorted(plugins)))
    return _(
        "The window can't be opened: Qt, which draws it, needs system libraries that are missing here ({files}).\n"
        "On Debian and Ubuntu, this installs them:\n  sudo apt-get install {packages}\n"
        "On other systems, install the packages that contain these files.\n"
        "`hone train RUN.hone` trains without a window."
    ).format(files=", ".join(missing), packages=" ".join(sorted(map(debian_package, missing))))


def missing_libraries(plugin: Path, error: OSError) -> list[str]:
    """All libraries a plugin lacks, according to `ldd`; otherwise the first one, which the loader's error names."""
    try:
        listed = subprocess.run(["ldd", str(plugin)], capture_output=True, text=True, check=False, timeout=10)
        names = re.findall(r"(\S+) => not found", listed.stdout)
    except (OSError, subprocess.TimeoutExpired):
        names = []
    # a bundle's loader wraps the system's error in its own
    return names or re.findall(r"\S+\.so[.\d]*(?=: )", str(error.__cause__ or error))[:1] or [plugin.name]


def debian_package(library: str) -> str:
    """The package with a library: `libegl1` for `libEGL.so.1`.

    See https://www.debian.org/doc/debian-policy/ch-sharedlibs.html#run-time-shared-libraries
    """
    if library == "libglib-2.0.so.0":
        return "libglib2.0-0"
    name, _so, version = library.lower().partition(".so.")
    return f"{name}-{version}" if name[-1].isdigit() else f"{name}{version}"


def open_window(arguments: Sequence[str]) -> int:
    """Show the window, with the files among the arguments.

    Qt is imported here and not before: the command line works where Qt can't be loaded.
    """
    if reason := why_no_window():
        show_message(reason)
        return 1
    gc.disable()  # a collection during the start takes 30 ms; run_app has it done from then on
    from gui.app.application import run_app

    return run_app([sys.argv[0], *program.files_to_open(arguments)])


def main() -> int:
    """Run the program with the process's arguments and return its exit status."""
    _language, arguments = split_off(sys.argv[1:])
    return program.run(arguments, partial(open_window, arguments), None if has_terminal() else show_message)


if __name__ == "__main__":
    sys.exit(main())
