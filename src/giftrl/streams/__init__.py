"""Streams: from files, in whatever format, to batches of rows."""
