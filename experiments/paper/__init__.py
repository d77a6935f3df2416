"""The paper's experiments run again, and what their numbers depend on: `make reproduce`."""
