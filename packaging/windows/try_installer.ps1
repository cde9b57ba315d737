# Install what make_installer.py made, use it, open a run file's type, remove it, and
# look what is left. Never run yet.
$ErrorActionPreference = "Stop"

function Fail($words) {
    Write-Host "FAILED: $words"
    exit 1
}

function Run($program, $arguments) {
    $done = Start-Process -FilePath $program -ArgumentList $arguments -Wait -PassThru
    if ($done.ExitCode -ne 0) { Fail "$program $arguments ended with $($done.ExitCode)" }
}

$installer = @(Get-ChildItem "dist\hone-*-windows-x64.exe")
if ($installer.Count -ne 1) { Fail "dist holds $($installer.Count) installers" }
$folder = Join-Path $env:LOCALAPPDATA "Programs\Hone"
$own = Join-Path $env:LOCALAPPDATA "Hone"

Run $installer[0].FullName "/S"
foreach ($name in "Hone.exe", "hone-cli.exe", "uninstall.exe") {
    if (-not (Test-Path (Join-Path $folder $name))) { Fail "$name is not installed" }
}
$opens = (Get-ItemProperty "HKCU:\Software\Classes\Hone.Run\shell\open\command")."(default)"
if ($opens -ne "`"$folder\Hone.exe`" `"%1`"") { Fail "run files open with $opens" }

python start.py bundle --try (Join-Path $folder "hone-cli.exe")
if ($LASTEXITCODE -ne 0) { Fail "the installed program failed" }

New-Item -ItemType Directory -Force (Join-Path $own "runs\mine"), (Join-Path $own "cache\old") | Out-Null
Set-Content (Join-Path $own "runs\mine\run.toml") "kept"
Set-Content (Join-Path $own "settings.json") "{}"
# The uninstaller copies itself and goes on in that copy, which -Wait doesn't see: _?= keeps it in its place.
Run (Join-Path $folder "uninstall.exe") "/S _?=$folder"
foreach ($name in "Hone.exe", "hone-cli.exe", "_internal") {
    if (Test-Path (Join-Path $folder $name)) { Fail "$name is still there" }
}
foreach ($key in "HKCU:\Software\Classes\Hone.Run", "HKCU:\Software\Microsoft\Windows\CurrentVersion\Uninstall\Hone") {
    if (Test-Path $key) { Fail "$key is still there" }
}
if (Test-Path (Join-Path $own "settings.json")) { Fail "the settings are still there" }
if (Test-Path (Join-Path $own "cache")) { Fail "the cache is still there" }
if (-not (Test-Path (Join-Path $own "runs\mine\run.toml"))) { Fail "the person's runs are gone" }
Write-Host "Installed, tried out, removed; the runs were kept."
