"""What a state contains, as numbers: key groups are reduced one at a time, and the parts merged to a summary."""
