"""Learning over HTTP: a folder of models that learn, predict, and lose nothing that they have acknowledged."""
