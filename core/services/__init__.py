"""What can be asked beside training: data inspection, devices, Hub, exports, chat, GPU installation."""
