; The installer of Hone for Windows: for one person, without an administrator.
;
;   makensis -DVERSION=0.1.0 -DFOUR_NUMBERS=0.1.0.0 -DSOURCE=dist\hone -DOUT=dist\hone-0.1.0-windows-x64.exe hone.nsi
;
; SOURCE is the folder that PyInstaller made. packaging/windows/make_installer.py calls this with the right names.
; Compiled here with Debian's makensis; never run on Windows yet.

Unicode true
!include "MUI2.nsh"
!include "LogicLib.nsh"
!include "WinVer.nsh"
!include "x64.nsh"
!include "FileFunc.nsh"

!define NAME "Hone"
!define PUBLISHER "The Hone contributors"
!define RUN_CLASS "Hone.Run"
!define RUN_KIND "Hone run"
!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\Hone"
!define TOKEN_SERVICE "Hone"
!define TOKEN_USER "huggingface.co"
!define OLDEST_BUILD 17763 ; Windows 10, version 1809, which Qt needs
!define /date YEAR "%Y"

Name "${NAME}"
OutFile "${OUT}"
RequestExecutionLevel user
InstallDir "$LOCALAPPDATA\Programs\Hone"
InstallDirRegKey HKCU "${UNINSTALL_KEY}" "InstallLocation"
SetCompressor /SOLID lzma
SetCompressorDictSize 64
ManifestDPIAware true
ManifestSupportedOS Win10
ShowInstDetails nevershow
ShowUninstDetails nevershow
BrandingText "${NAME} ${VERSION}"

VIProductVersion "${FOUR_NUMBERS}"
VIAddVersionKey "ProductName" "${NAME}"
VIAddVersionKey "ProductVersion" "${VERSION}"
VIAddVersionKey "FileVersion" "${VERSION}"
VIAddVersionKey "FileDescription" "Installs ${NAME}"
VIAddVersionKey "CompanyName" "${PUBLISHER}"
VIAddVersionKey "LegalCopyright" "Copyright ${YEAR} ${PUBLISHER}. Apache License 2.0."

!define MUI_ICON "..\icons\hone.ico"
!define MUI_UNICON "..\icons\hone.ico"
!define MUI_ABORTWARNING
!define MUI_FINISHPAGE_RUN "$INSTDIR\Hone.exe"
!insertmacro MUI_PAGE_LICENSE "..\..\LICENSE"
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"

; A program that runs can't be replaced or deleted: Windows lets nobody write to it.
!macro WAIT_UNTIL_CLOSED UN
Function ${UN}WaitForProgram
    Pop $1
    again:
    ${IfNot} ${FileExists} "$1"
        Return
    ${EndIf}
    ClearErrors
    FileOpen $0 "$1" a
    ${IfNot} ${Errors}
        FileClose $0
        Return
    ${EndIf}
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION \
        "Hone is open, or a run of it trains.$\r$\n$\r$\nPause or stop the run, close Hone, then press Retry." \
        /SD IDCANCEL IDRETRY again
    SetErrorLevel 2
    Quit
FunctionEnd

Function ${UN}WaitUntilClosed
    Push "$INSTDIR\Hone.exe"
    Call ${UN}WaitForProgram
    Push "$INSTDIR\hone-cli.exe"
    Call ${UN}WaitForProgram
FunctionEnd
!macroend
!insertmacro WAIT_UNTIL_CLOSED ""
!insertmacro WAIT_UNTIL_CLOSED "un."

; What this installer has put there, by name: the folder may hold other things, where somebody has chosen it.
!macro REMOVE_PROGRAM
    RMDir /r "$INSTDIR\_internal"
    Delete "$INSTDIR\Hone.exe"
    Delete "$INSTDIR\hone-cli.exe"
!macroend

Function .onInit
    ${IfNot} ${RunningX64}
        MessageBox MB_OK|MB_ICONSTOP "Hone needs a 64-bit Windows." /SD IDOK
        SetErrorLevel 1
        Quit
    ${EndIf}
    ${IfNot} ${AtLeastBuild} ${OLDEST_BUILD}
        MessageBox MB_OK|MB_ICONSTOP "This Windows is too old for Hone, which needs Windows 10, version 1809, or newer.\
            $\r$\nUpdate it: Settings > Update & Security > Windows Update." /SD IDOK
        SetErrorLevel 1
        Quit
    ${EndIf}
FunctionEnd

Section "Hone"
    Call WaitUntilClosed
    !insertmacro REMOVE_PROGRAM ; files of an older version must not stay among those of this one
    SetOutPath "$INSTDIR"
    ClearErrors
    File /r "${SOURCE}\*"
    ${If} ${Errors}
        MessageBox MB_OK|MB_ICONSTOP "Hone could not be written to $INSTDIR. Is the disk full? Free some space, then \
            start this installer again." /SD IDOK
        SetErrorLevel 3
        Abort
    ${EndIf}
    WriteUninstaller "$INSTDIR\uninstall.exe"
    CreateShortcut "$SMPROGRAMS\Hone.lnk" "$INSTDIR\Hone.exe"

    ; Run files open with Hone.
    WriteRegStr HKCU "Software\Classes\.hone" "" "${RUN_CLASS}"
    WriteRegStr HKCU "Software\Classes\.hone\OpenWithProgids" "${RUN_CLASS}" ""
    WriteRegStr HKCU "Software\Classes\${RUN_CLASS}" "" "${RUN_KIND}"
    WriteRegStr HKCU "Software\Classes\${RUN_CLASS}\DefaultIcon" "" "$INSTDIR\Hone.exe,0"
    WriteRegStr HKCU "Software\Classes\${RUN_CLASS}\shell\open\command" "" '"$INSTDIR\Hone.exe" "%1"'
    ${RefreshShellIcons}

    ; What Settings > Apps shows.
    ${GetSize} "$INSTDIR" "/S=0K" $0 $1 $2
    WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayName" "${NAME}"
    WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayVersion" "${VERSION}"
    WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayIcon" "$INSTDIR\Hone.exe"
    WriteRegStr HKCU "${UNINSTALL_KEY}" "Publisher" "${PUBLISHER}"
    WriteRegStr HKCU "${UNINSTALL_KEY}" "InstallLocation" "$INSTDIR"
    WriteRegStr HKCU "${UNINSTALL_KEY}" "UninstallString" '"$INSTDIR\uninstall.exe"'
    WriteRegStr HKCU "${UNINSTALL_KEY}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
    WriteRegDWORD HKCU "${UNINSTALL_KEY}" "EstimatedSize" $0
    WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoModify" 1
    WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoRepair" 1
SectionEnd

; Everything in Hone's own folder goes, but what the person has made: runs.
Function un.RemoveOwnFolder
    StrCpy $3 "$LOCALAPPDATA\Hone"
    FindFirst $0 $1 "$3\*"
    ${DoUntil} $1 == ""
        ${If} $1 != "."
        ${AndIf} $1 != ".."
        ${AndIf} $1 != "runs"
            ${If} ${FileExists} "$3\$1\*"
                RMDir /r "$3\$1"
            ${Else}
                Delete "$3\$1"
            ${EndIf}
        ${EndIf}
        FindNext $0 $1
    ${Loop}
    FindClose $0
    RMDir "$3" ; only where it is empty
FunctionEnd

; The token for the Hugging Face Hub, kept in the Credential Manager by Python's keyring under one of these two names.
; 1 is CRED_TYPE_GENERIC. Where there is none, nothing happens.
Function un.ForgetToken
    System::Call 'advapi32::CredDeleteW(w "${TOKEN_SERVICE}", i 1, i 0)'
    System::Call 'advapi32::CredDeleteW(w "${TOKEN_USER}@${TOKEN_SERVICE}", i 1, i 0)'
FunctionEnd

Section "Uninstall"
    Call un.WaitUntilClosed
    !insertmacro REMOVE_PROGRAM
    Delete "$INSTDIR\uninstall.exe"
    RMDir "$INSTDIR" ; only where it is empty
    Delete "$SMPROGRAMS\Hone.lnk"

    ReadRegStr $0 HKCU "Software\Classes\.hone" ""
    ${If} $0 == "${RUN_CLASS}"
        DeleteRegKey HKCU "Software\Classes\.hone"
    ${Else} ; another program opens them by now
        DeleteRegValue HKCU "Software\Classes\.hone\OpenWithProgids" "${RUN_CLASS}"
    ${EndIf}
    DeleteRegKey HKCU "Software\Classes\${RUN_CLASS}"
    DeleteRegKey HKCU "${UNINSTALL_KEY}"
    ${RefreshShellIcons}
    Call un.RemoveOwnFolder
    Call un.ForgetToken
SectionEnd
