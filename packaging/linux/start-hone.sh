#!/bin/sh
# Start Hone from a folder or an AppImage, and say in plain words where this Linux is too old for it: the loader would
# only say that a version of GLIBC wasn't found, and to nobody where Hone was started with a click.
oldest=@OLDEST@ # glibc 2.this, filled in when it is packed: what the bundle's files ask for
systems="@SYSTEMS@ and newer ones have it."

file=$(readlink -f "$0" 2>/dev/null) || file=$0 # PATH may lead nowhere
here=${file%/*}
[ "$here" != "$file" ] || here=.
program=$here/hone
[ -x "$program" ] || program=$here/usr/lib/hone/hone # in an AppImage

tell() {
    printf '%s\n' "$1" >&2
    if [ -t 1 ] || [ -t 2 ] || [ -z "$DISPLAY$WAYLAND_DISPLAY" ]; then return; fi
    if command -v zenity >/dev/null 2>&1; then
        zenity --error --no-markup --title=Hone --width=480 --text "$1" >/dev/null 2>&1 &
    elif command -v kdialog >/dev/null 2>&1; then
        kdialog --title Hone --error "$1" >/dev/null 2>&1 &
    elif command -v xmessage >/dev/null 2>&1; then
        xmessage -center "$(printf '%s\n' "$1" | fold -s -w 72)" >/dev/null 2>&1 &
    fi
}

libc=glibc # where nobody can say which, the program is tried
if command -v getconf >/dev/null 2>&1; then
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) # such as: glibc 2.36
fi
case $libc in
"glibc 2."*)
    if [ "${libc#glibc 2.}" -lt "$oldest" ] 2>/dev/null; then
        tell "This Linux has $libc, and Hone needs glibc 2.$oldest or newer. $systems"
        exit 1
    fi
    ;;
glibc*) ;;
*)
    tell "This Linux has another C library than GNU's (such as musl, in Alpine), and Hone needs glibc 2.$oldest. $systems"
    exit 1
    ;;
esac

[ -n "$APPIMAGE" ] || exec "$program" "$@"

# What an AppImage holds is there as long as this script runs, and a run trains on when its window is closed.
is_in_use() {
    for process in /proc/[0-9]*/exe; do
        case $(readlink "$process" 2>/dev/null) in
        "$here"/*) return 0 ;;
        esac
    done
    return 1
}
trap : HUP INT TERM
"$program" "$@"
status=$?
while is_in_use; do
    sleep 1
done
exit "$status"
