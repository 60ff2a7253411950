"""What gradloom.library is made of: operators that Python functions compute, registered at run time."""
