"""What the properties of Hone's programs say on Windows, as PyInstaller reads it: EXE(version=...) in hone.spec."""

from __future__ import annotations

from pathlib import Path

import about

US_ENGLISH, UNICODE = 0x0409, 1200


def four_numbers(version: str) -> tuple[int, int, int, int]:
    """A version as Windows wants it: 0.1.0 becomes (0, 1, 0, 0); what follows the numbers is left out."""
    release = version.partition("+")[0].partition("-")[0]
    numbers = [int(part) for part in release.split(".") if part.isdecimal()]
    first, second, third, fourth = [*numbers, 0, 0, 0, 0][:4]
    return first, second, third, fourth


def text(version: str, program: str) -> str:
    """The file's text for one program, such as `Hone.exe`."""
    numbers = four_numbers(version)
    words = {
        "CompanyName": about.PUBLISHER,
        "FileDescription": about.NAME,
        "FileVersion": version,
        "InternalName": program.removesuffix(".exe"),
        "LegalCopyright": about.COPYRIGHT,
        "OriginalFilename": program,
        "ProductName": about.NAME,
        "ProductVersion": version,
    }
    structs = ", ".join(f"StringStruct({name!r}, {value!r})" for name, value in words.items())
    return (
        "VSVersionInfo(\n"
        f"  ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}, OS=0x40004, fileType=0x1),\n"
        "  kids=[\n"
        f"    StringFileInfo([StringTable('{US_ENGLISH:04x}{UNICODE:04x}', [{structs}])]),\n"
        f"    VarFileInfo([VarStruct('Translation', [{US_ENGLISH}, {UNICODE}])]),\n"
        "  ],\n"
        ")\n"
    )


def write(folder: Path, version: str, program: str) -> Path:
    """Write the file into `folder`, which is made where there is none; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program}.version.txt"
    path.write_text(text(version, program), encoding="utf-8")
    return path
