"""Where Hone begins: `hone`, `python -m gui` and the bundle's executable."""

import ctypes
import gc
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.processes import foreign_environment
from core.cli import program

# --- Systems too old for what Hone is made of, told before Qt is loaded


OLDEST_MACOS = (14, 0)
"""By the tags of PyTorch's wheels for Macs; packaging/about.py says it to macOS itself."""

OLDEST_WINDOWS = 17763
"""The build of Windows 10, version 1809 (https://doc.qt.io/qt-6/windows.html)."""

WITHOUT_A_WINDOW = "`hone train RUN.hone` trains without a window."


@dataclass(frozen=True)
class System:
    """What decides whether Hone runs here.

    Attributes:
        name: As in `sys.platform`.
        version: Of macOS, such as (13, 6); of Windows, its build alone, such as (19045,). Empty: not known.
        machine: The processor this program is made for, such as `arm64`.
    """

    name: str
    version: tuple[int, ...] = ()
    machine: str = ""


def this_system() -> System:
    """The computer this runs on."""
    if sys.platform == "darwin":
        return System("darwin", _numbers(platform.mac_ver()[0]), platform.machine())
    if sys.platform == "win32":
        return System("win32", (sys.getwindowsversion().build,), platform.machine())
    return System(sys.platform)


def why_too_old(system: System) -> str:
    """Why the window can't open on this system and what to do; empty where it can."""
    if system.name == "darwin":
        return _of_a_mac(system)
    if system.name == "win32" and system.version and system.version[0] < OLDEST_WINDOWS:
        return (
            "This Windows is too old for Hone, which needs Windows 10, version 1809, or newer.\n"
            "Update it: Settings > Update & Security > Windows Update."
        )
    return ""


def _of_a_mac(system: System) -> str:
    if system.machine == "x86_64":
        return (
            "Hone needs a Mac with an Apple chip: PyTorch, which trains, is no longer made for Intel processors.\n"
            "If this Mac has an Apple chip, this program runs as one for Intel: in the Finder, press Command-I on it "
            "and take the mark off “Open using Rosetta”; a Python has to be one for Apple chips.\n"
            "On an Intel Mac nothing helps: use Hone on another computer with macOS, Windows or Linux."
        )
    if system.version and system.version < OLDEST_MACOS:
        found = ".".join(str(number) for number in system.version)
        return (
            f"This Mac has macOS {found}, and Hone needs macOS {OLDEST_MACOS[0]} (Sonoma) or newer.\n"
            "Update it in System Settings > General > Software Update."
        )
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


# --- Words for who can't be shown a window of Hone's: in the terminal


TITLE = "Hone"

ON_A_MAC = (
    "osascript",
    "-e", "on run words",
    "-e", 'display alert "Hone" message (item 1 of words) as critical',
    "-e", "end run",
)  # fmt: skip

ON_LINUX: tuple[tuple[str, ...], ...] = (
    ("zenity", "--error", "--no-markup", f"--title={TITLE}", "--width=480", "--text"),
    ("kdialog", "--title", TITLE, "--error"),
    ("xmessage", "-center"),
    ("notify-send", TITLE),
)
"""Programs that show words, by what desktops bring; the words come last."""


COLUMNS = 72
ASCII = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "..."})


def tell(words: str) -> None:
    """Say it where it is seen. Returns at once; a box stays until it is closed."""
    if sys.platform == "win32":
        _tell_windows(words)
        return
    print(words, file=sys.stderr, flush=True)
    command = None if is_watched() else box(words)
    if command is not None:
        _show(command)


def is_watched() -> bool:
    """Whether somebody reads along in a terminal, where one of the streams may lead elsewhere."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))


def box(
    words: str,
    system: str = sys.platform,
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> Sequence[str] | None:
    """The command that shows words in a box on this system; None: there is none, or no screen."""
    if system == "darwin":
        return [*ON_A_MAC, words]
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return None
    command = next((command for command in ON_LINUX if which(command[0])), None)
    if command is None:
        return None
    return [*command, _plain(words) if command[0] == "xmessage" else words]


def _plain(words: str) -> str:
    """Words for xmessage, which breaks no lines and shows curly quotes as numbers."""
    lines = words.translate(ASCII).splitlines()
    return "\n".join(textwrap.fill(line, COLUMNS, break_long_words=False) for line in lines)


def _show(command: Sequence[str]) -> None:
    silent = subprocess.DEVNULL
    try:
        subprocess.Popen(
            command,
            stdin=silent,
            stdout=silent,
            stderr=silent,
            env=foreign_environment(),
            start_new_session=True,
        )
    except OSError:  # the words have been printed
        return


def _tell_windows(words: str) -> None:
    """Print it, and show a box where this program has no console, whatever its streams lead to."""
    if sys.stderr is not None:
        print(words, file=sys.stderr, flush=True)
    if sys.platform == "win32":
        import ctypes

        icon_error = 0x10
        if not ctypes.windll.kernel32.GetConsoleWindow():
            ctypes.windll.user32.MessageBoxW(None, words, TITLE, icon_error)


# --- The system libraries Qt needs to open a window on Linux, looked for before Qt is


ALWAYS = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
}
"""By the name of the file, the package of Debian and Ubuntu that has it."""

ON_X11 = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


ON_WAYLAND = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}

IN_TURN = {
    "libxcb.so.1": "libxcb1",
    "libX11.so.6": "libx11-6",
    "libXau.so.6": "libxau6",
    "libXdmcp.so.6": "libxdmcp6",
    "libGLX.so.0": "libglx0",
    "libGLdispatch.so.0": "libglvnd0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-util.so.1": "libxcb-util1",
}
"""What those need in turn: the loader names the file that is missing, not the one that was asked for."""

OTHER_PLUGINS = ("QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH")
"""Variables that lead Qt to more plugins than its own."""

_GRAPHICS = {"libEGL.so.1", "libGL.so.1"}


def what_is_missing(
    environment: Mapping[str, str] = os.environ,
    load: Callable[[str], object] = ctypes.CDLL,
    plugins: Path | None = None,
) -> str:
    """What keeps Qt from this screen and what to do; empty: nothing.

    A bundle brings most libraries along, and they are found in it; those of the graphics driver are the system's.

    Args:
        environment: Tells the screen: libraries of X11 are looked for only where Qt has no other.
        load: Loads a library by the name of its file; raises OSError.
        plugins: Where Qt's own plugins for screens lie; None: they are looked for.
    """
    if not sys.platform.startswith("linux"):
        return ""
    plugins = qt_plugins() if plugins is None else plugins
    unreachable = _unknown_platform(environment, plugins) or _unreachable(environment, plugins)
    if unreachable:
        return unreachable
    wanted = {**ALWAYS, **_of_screen(environment)}
    missing = {}
    for name, package in wanted.items():
        culprit = _lacking(name, load)
        if culprit:
            missing[culprit] = IN_TURN.get(culprit) or wanted.get(culprit, package)
    if not missing:
        return ""
    what = (
        "the libraries of OpenGL and others of the system" if _GRAPHICS & set(missing) else "system libraries"
    )
    return (
        f"The window can't be opened: Qt, which draws it, needs {what} that are missing here "
        f"({', '.join(missing)}).\nOn Debian and Ubuntu, this installs them:\n"
        f"  sudo apt-get install {' '.join(sorted(set(missing.values())))}\n"
        f"On other systems, install the packages that hold these files.\n{WITHOUT_A_WINDOW}"
    )


def qt_plugins() -> Path | None:
    """The folder with Qt's plugins for screens, found without loading Qt; None: it isn't where it is expected."""
    found = importlib.util.find_spec("PySide6")
    places = [] if found is None else list(found.submodule_search_locations or ())
    folders = (Path(place) / "Qt" / "plugins" / "platforms" for place in places)
    return next((folder for folder in folders if folder.is_dir()), None)


def _unknown_platform(environment: Mapping[str, str], plugins: Path | None) -> str:
    """What to do where QT_QPA_PLATFORM names no platform of this Qt, at which Qt aborts; empty: it names one."""
    value = environment.get("QT_QPA_PLATFORM", "")
    asked = {
        re.split("[:-]", name)[0].lower() for name in value.split(";") if name
    }  # wayland-egl is of wayland
    if plugins is None or not asked or any(environment.get(name) for name in OTHER_PLUGINS):
        return ""
    known = {re.split("[.-]", file.name)[0].removeprefix("libq") for file in plugins.glob("libq*.so")}
    if not known or asked & known:
        return ""
    return (
        f"The window can't be opened: QT_QPA_PLATFORM={value} names no platform that this Qt has "
        f"({', '.join(sorted(known))}).\nStart Hone without this variable, and Qt finds the screen by itself.\n"
        f"{WITHOUT_A_WINDOW}"
    )


def _unreachable(environment: Mapping[str, str], plugins: Path | None) -> str:
    """What to do where a screen is there and Qt has no way to it; empty: it has one."""
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    chosen = environment.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if not wayland or x11 or chosen not in ("", "wayland", "xcb"):
        return ""
    if chosen == "xcb":
        return (
            "The window can't be opened: QT_QPA_PLATFORM asks for X11, and this Wayland session has none.\n"
            "Start Hone with QT_QPA_PLATFORM=wayland, or install XWayland (the package xwayland) and log in again.\n"
            f"{WITHOUT_A_WINDOW}"
        )
    if plugins is None or any(plugins.glob("libqwayland*")):
        return ""
    return (
        "The window can't be opened: this is a Wayland session without XWayland, and this Qt knows only X11.\n"
        f"Install XWayland (the package xwayland) and log in again, or choose a session with X11 where you log in.\n"
        f"{WITHOUT_A_WINDOW}"
    )


def _of_screen(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The libraries of the one screen Qt can take; none where it has a choice, or draws on none."""
    chosen = environment.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if chosen:
        return {"xcb": ON_X11, "wayland": ON_WAYLAND}.get(chosen, {})
    if not environment.get("WAYLAND_DISPLAY"):
        return ON_X11
    return {} if environment.get("DISPLAY") else ON_WAYLAND


def _lacking(name: str, load: Callable[[str], object]) -> str:
    """The file that keeps a library from loading, which may be one that it needs in turn; empty: it loads."""
    try:
        load(name)
    except OSError as error:
        said = str(error.__cause__ or error)  # a bundle's loader wraps the system's error in one of its own
        found = re.match(r"(.+?\.so[.\d]*): ", said)
        return Path(found[1]).name if found else name
    return ""


# --- Whether the screen that a Linux session names answers: where none does


DESKTOPS = {"wayland": "WAYLAND_DISPLAY", "xcb": "DISPLAY"}
"""The platforms of Qt that need a desktop, and the variable that names it."""


def why_no_answer(
    environment: Mapping[str, str] = os.environ, answers: Callable[[str], bool] | None = None
) -> str:
    """Why no screen can be reached and what to do; empty where one can, or where Qt was told to draw on none.

    Args:
        environment: Names the screens.
        answers: Whether the screen of a platform answers; raises OSError where that can't be found out.
    """
    if not sys.platform.startswith("linux"):
        return ""
    answers = answers or _answers
    value = environment.get("QT_QPA_PLATFORM", "")
    asked = [name.partition(":")[0] for name in value.split(";") if name]
    here = [name for name, variable in DESKTOPS.items() if environment.get(variable)]
    platforms = asked or here
    if not platforms or any(name not in DESKTOPS or _is_there(name, answers) for name in platforms):
        return ""
    if any(name not in platforms and _is_there(name, answers) for name in here):
        return (
            f"The window can't be opened: QT_QPA_PLATFORM={value} asks for a screen that doesn't answer, and another "
            f"one does.\nStart Hone without this variable, and Qt finds the screen by itself.\n{WITHOUT_A_WINDOW}"
        )
    named = ", ".join(f"{DESKTOPS[name]}={environment.get(DESKTOPS[name], '')}" for name in platforms)
    return (
        f"The window can't be opened: the screen doesn't answer ({named}).\n"
        "Start Hone from the desktop or from a terminal on it; over a network, with `ssh -X`, and as yourself, not as "
        f"another user.\n{WITHOUT_A_WINDOW}"
    )


def _is_there(platform: str, answers: Callable[[str], bool]) -> bool:
    try:
        return answers(platform)
    except OSError:  # the library to ask with is missing, which others tell
        return True


def _answers(platform: str) -> bool:
    """Connect as Qt will, rights included, and hang up again."""
    return _wayland_answers() if platform == "wayland" else _x11_answers()


def _x11_answers() -> bool:
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    refused = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return not refused


def _wayland_answers() -> bool:
    wayland = ctypes.CDLL("libwayland-client.so.0")
    wayland.wl_display_connect.restype = ctypes.c_void_p
    display = wayland.wl_display_connect(None)
    if display is None:
        return False
    wayland.wl_display_disconnect(ctypes.c_void_p(display))
    return True


# --- Where Hone begins: `hone`, `python -m gui` and the bundle's executable


SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def open_window() -> int:
    """Show the window. Qt is imported here and not before: the command line works where Qt can't be loaded."""
    reason = why_no_window()
    if reason:
        tell(reason)
        return 1
    gc.disable()  # to look for garbage among what is just being made takes 30 ms; run_app sets it going again
    from gui.app.application import run_app

    return run_app([sys.argv[0], *program.files_to_open(sys.argv[1:])])


def why_no_window() -> str:
    """Why the window can't be opened and what to do; empty where it can."""
    if not has_screen():
        return "There is no screen here to open the window on; `hone train RUN.hone` trains without one."
    return why_too_old(this_system()) or what_is_missing() or why_no_answer()


def has_screen() -> bool:
    """Whether Qt may find a screen. Asked on Linux only, where Qt aborts without one; elsewhere it finds its own."""
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in SCREENS)


def main() -> int:
    """Run the program with the process's arguments and return its exit status."""
    return program.run(sys.argv[1:], open_window, None if is_watched() else tell)


if __name__ == "__main__":
    sys.exit(main())
