"""What errors and debug builds say beside the core: notes on exceptions, and assertions in generated code.

error_notes     notes on exceptions that leave a backward pass or a forward-mode formula
debug_checks    the assertions of code that `gradloom generate --debug` writes
"""
