"""Python face of a Mooncake pool: see mooncake.store."""
