"""Patches that fix nothing and want to pass, or to be somebody else's fault: `make attacks`."""
