"""What the sources claim, measured on real networks: one file each, `run(config)` and `figure`."""
