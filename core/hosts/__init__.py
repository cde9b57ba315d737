"""Other computers: reached with OpenSSH, they run Hone's engine; their runs are followed here."""
