"""Adapters that give streamgp the interface of another library; each module needs the library that it is for."""
