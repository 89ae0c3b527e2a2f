"""Speed as ratios to a limit measured in the same run. Run all with `make bench`."""
