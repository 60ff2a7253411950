"""What users do with a tensor besides computing: construct, index, print, convert and exchange it."""
