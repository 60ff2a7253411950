"""The parts of gradloom.library: operators computed by Python functions, registered at run time."""
