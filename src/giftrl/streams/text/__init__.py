"""LIBSVM, VW text and JSON lines, parsed by compiled loops."""
