"""Nexmark: an auction site's stream of persons, auctions and bids, and five windowed queries over it."""
