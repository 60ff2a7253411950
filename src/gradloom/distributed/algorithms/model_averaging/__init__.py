"""Average the parameters of ranks that train by themselves for some steps."""
