#!/usr/bin/env bash
# Sign Hone.app or its disk image, have Apple notarise it, and staple the ticket to it:
#     sign_and_notarise.sh dist/Hone.app        sign_and_notarise.sh dist/hone-0.1.0-macos-arm64.dmg
# Without the secrets below it says so and leaves everything as it is: PyInstaller's own signature, which lets the
# program run after the steps of docs/install.md.
#
#   MACOS_CERTIFICATE           a "Developer ID Application" certificate with its key, a .p12 file in base64
#   MACOS_CERTIFICATE_PASSWORD  the password of that file
#   APPLE_ID, APPLE_TEAM_ID     who submits; APPLE_APP_PASSWORD: an app-specific password of that Apple ID
#
# Never run yet: the project has no certificate. Tested with stand-ins for Apple's programs only.
set -euo pipefail

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ -z ${MACOS_CERTIFICATE:-} || -z ${MACOS_CERTIFICATE_PASSWORD:-} ]]; then
    echo "NOTE: $target is not signed: the secrets MACOS_CERTIFICATE and MACOS_CERTIFICATE_PASSWORD are not set."
    echo "NOTE: who downloads it has to allow it in System Settings > Privacy & Security (docs/install.md)."
    exit 0
fi

work=$(mktemp -d)
keychain=$work/signing.keychain-db
keychain_password=$(openssl rand -base64 24)
earlier=()
while read -r line; do
    line=${line#\"}
    earlier+=("${line%\"}")
done < <(security list-keychains -d user | sed 's/^ *//')

tidy_up() {
    security list-keychains -d user -s ${earlier[@]+"${earlier[@]}"} || true
    security delete-keychain "$keychain" || true
    rm -rf "$work"
}
trap tidy_up EXIT

unlock_certificate() {
    printf %s "$MACOS_CERTIFICATE" | base64 --decode >"$work/certificate.p12"
    security create-keychain -p "$keychain_password" "$keychain"
    security set-keychain-settings -lut 3600 "$keychain"
    security unlock-keychain -p "$keychain_password" "$keychain"
    security import "$work/certificate.p12" -k "$keychain" -P "$MACOS_CERTIFICATE_PASSWORD" -T /usr/bin/codesign
    security set-key-partition-list -S apple-tool:,apple: -s -k "$keychain_password" "$keychain" >/dev/null
    security list-keychains -d user -s "$keychain" ${earlier[@]+"${earlier[@]}"}
    rm "$work/certificate.p12"
    identity=$(security find-identity -v -p codesigning "$keychain" | sed -n 's/.*"\(Developer ID Application: .*\)".*/\1/p' | head -1)
    if [[ -z $identity ]]; then
        echo "The certificate is none of the kind Developer ID Application." >&2
        exit 1
    fi
}

sign() {
    codesign --force --timestamp --sign "$identity" --keychain "$keychain" "$@"
}

# Everything that is executed or loaded, from the inside to the outside; the application itself comes last.
sign_app() {
    local file
    while IFS= read -r -d '' file; do
        case $(file -b "$file") in
        Mach-O*executable*) sign --options runtime --entitlements "$here/entitlements.plist" "$file" ;;
        Mach-O*) sign --options runtime "$file" ;;
        esac
    done < <(find "$target/Contents" -type f -print0)
    while IFS= read -r -d '' file; do
        sign --options runtime "$file"
    done < <(find "$target/Contents" -depth -type d -name '*.framework' -print0)
    sign --options runtime --entitlements "$here/entitlements.plist" "$target"
    codesign --verify --deep --strict --verbose=2 "$target"
}

notarise() {
    if [[ -z ${APPLE_ID:-} || -z ${APPLE_TEAM_ID:-} || -z ${APPLE_APP_PASSWORD:-} ]]; then
        echo "NOTE: $target is signed and not notarised: APPLE_ID, APPLE_TEAM_ID and APPLE_APP_PASSWORD are not all set."
        return
    fi
    local submitted=$target
    if [[ -d $target ]]; then
        submitted=$work/submitted.zip
        ditto -c -k --keepParent "$target" "$submitted"
    fi
    xcrun notarytool submit "$submitted" --wait --timeout 45m \
        --apple-id "$APPLE_ID" --team-id "$APPLE_TEAM_ID" --password "$APPLE_APP_PASSWORD" | tee "$work/answer"
    if ! grep -q 'status: Accepted' "$work/answer"; then
        echo "Apple did not accept $target; xcrun notarytool log says why." >&2
        exit 1
    fi
    xcrun stapler staple "$target"
}

unlock_certificate
if [[ -d $target ]]; then
    sign_app
else
    sign "$target"
fi
notarise
