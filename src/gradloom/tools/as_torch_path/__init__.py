"""A folder that `gradloom run` puts on PYTHONPATH, so that processes of a program find gradloom as torch."""
