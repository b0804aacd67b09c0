"""What tests/run does: probes the machine, builds, runs every kind of test, and gives one verdict."""
