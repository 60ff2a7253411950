"""The former place of the command, which environments that were installed before it moved still call."""

from importlib import import_module

main = import_module("gradloom.tools.cli").main
