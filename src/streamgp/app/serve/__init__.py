"""The service: a model behind HTTP, with one writer, readers that never wait for it, metrics and a live page."""
