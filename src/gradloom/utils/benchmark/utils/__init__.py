"""The parts of `gradloom.utils.benchmark`."""
