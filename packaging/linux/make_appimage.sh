#!/usr/bin/env bash
# Make an AppImage of the folder that PyInstaller made:
#     make_appimage.sh dist/hone dist/hone-0.1.0-linux-x86_64.AppImage
# APPIMAGETOOL names the program that packs it (https://github.com/AppImage/appimagetool). Never run with the real one yet.
set -euo pipefail

bundle=$1
image=$2
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
install -m 755 "$here/start-hone.sh" "$folder/AppRun"

# Without FUSE, which a runner lacks, the packer unpacks itself first.
ARCH=x86_64 APPIMAGE_EXTRACT_AND_RUN=1 "${APPIMAGETOOL:-appimagetool}" --no-appstream "$folder" "$image"
chmod 755 "$image"
