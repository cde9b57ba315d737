#!/usr/bin/env bash
# Put Hone.app and a link to Applications into a disk image: make_dmg.sh dist/Hone.app dist/hone-0.1.0-macos-arm64.dmg
# Never run yet on a Mac; tested with a stand-in for hdiutil only.
set -euo pipefail

app=$1
image=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/Hone"
ditto "$app" "$work/Hone/$(basename "$app")" # keeps links and signatures, which cp would not
ln -s /Applications "$work/Hone/Applications"
rm -f "$image"
# The system's own search looks into new volumes, and hdiutil then finds it busy: try more than once.
for attempt in 1 2 3; do
    if hdiutil create -volname Hone -srcfolder "$work/Hone" -fs HFS+ -format ULFO -ov "$image"; then
        hdiutil verify "$image"
        exit 0
    fi
    echo "hdiutil failed (attempt $attempt)." >&2
    sleep $((attempt * 5))
done
exit 1
