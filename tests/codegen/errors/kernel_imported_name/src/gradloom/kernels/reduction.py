"""A name that a family imports is no kernel of it."""

from os import system
