"""LIBSVM, VW text and JSON lines: the formats for which no kept library is fast enough."""
