"""The benchmark against other libraries, on the same streams: `make bench`."""
