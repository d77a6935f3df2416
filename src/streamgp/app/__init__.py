"""The application: command line, tables, sessions, reports. The library does not know it."""
