"""Services besides training: data inspection, devices, Hub, exports, chat, GPU installation."""
