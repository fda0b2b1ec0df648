"""Job files and the command line: a windowed query described in TOML or YAML, checked, explained and run."""
