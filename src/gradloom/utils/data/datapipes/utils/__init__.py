"""What DataPipes share: checks of functions and columns, files, decoders, snapshots."""
