"""Files, globs, compression and standard input: where bytes come from."""
