#!/usr/bin/env bash
# Make an AppImage of the folder that PyInstaller made:
#     make_appimage.sh dist/hone dist/hone-0.1.0-linux-x86_64.AppImage
# APPIMAGETOOL names the program that packs it (https://github.com/AppImage/appimagetool), and APPIMAGE_RUNTIME the file that
# mounts it and is put in front of it (https://github.com/AppImage/type2-runtime): left alone, the packer would fetch whatever
# is the newest by then. Never run with the real ones yet.
set -euo pipefail

bundle=$1
image=$2
runtime=${APPIMAGE_RUNTIME:?"has to name the file of the runtime"}
if [[ ! -f $bundle/start-hone.sh ]]; then
    echo "$bundle has no start-hone.sh, which start.py bundle --only pack writes." >&2
    exit 1
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

folder=$work/Hone.AppDir
mkdir -p "$folder/usr/lib" "$folder/usr/share/icons/hicolor/256x256/apps" "$folder/usr/share/mime/packages"
cp -a "$bundle" "$folder/usr/lib/hone"
cp "$here/hone.desktop" "$folder/hone.desktop"
cp "$here/hone-mime.xml" "$folder/usr/share/mime/packages/hone.xml"
cp "$here/../icons/hone-256.png" "$folder/hone.png"
cp "$here/../icons/hone-256.png" "$folder/usr/share/icons/hicolor/256x256/apps/hone.png"
ln -s hone.png "$folder/.DirIcon"
mv "$folder/usr/lib/hone/start-hone.sh" "$folder/AppRun"

# Without FUSE, which a runner lacks, the packer unpacks itself first.
ARCH=x86_64 APPIMAGE_EXTRACT_AND_RUN=1 "${APPIMAGETOOL:-appimagetool}" --no-appstream --runtime-file "$runtime" \
    "$folder" "$image"
chmod 755 "$image"
