"""The application: command line, tables, sessions and reports. The library does not import it."""
