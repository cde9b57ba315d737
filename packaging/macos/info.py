"""What `Hone.app` says of itself in its Info.plist; for PyInstaller's BUNDLE in hone.spec."""

from __future__ import annotations

import about

ICON = "hone.icns"


def info(version: str) -> dict[str, object]:
    """The entries beside those that PyInstaller writes itself (executable, identifier, version)."""
    return {
        "CFBundleDisplayName": about.NAME,
        "CFBundleName": about.NAME,
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": about.RUN_KIND,
                "CFBundleTypeRole": "Editor",
                "CFBundleTypeIconFile": ICON,
                "LSHandlerRank": "Owner",
                "LSItemContentTypes": [about.RUN_TYPE],
            }
        ],
        "UTExportedTypeDeclarations": [
            {
                "UTTypeIdentifier": about.RUN_TYPE,
                "UTTypeDescription": about.RUN_KIND,
                "UTTypeConformsTo": ["public.utf8-plain-text"],
                "UTTypeIconFile": ICON,
                "UTTypeTagSpecification": {"public.filename-extension": [about.RUN_SUFFIX]},
            }
        ],
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSArchitecturePriority": ["arm64"],
        # A program with a console counts as one without a window, unless it says otherwise.
        "LSBackgroundOnly": False,
        "LSMinimumSystemVersion": about.OLDEST_MACOS,
        "NSHighResolutionCapable": True,
        "NSHumanReadableCopyright": about.COPYRIGHT,
        "NSPrincipalClass": "NSApplication",
        "NSSupportsAutomaticGraphicsSwitching": True,
    }
