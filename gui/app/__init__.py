"""The application: window, sidebar, live runs, closing."""
