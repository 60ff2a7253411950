"""Shape operators made of others."""
