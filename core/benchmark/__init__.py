"""Methods and devices measured on this computer, beside published figures."""
