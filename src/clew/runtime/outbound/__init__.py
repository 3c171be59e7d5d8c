"""From an answer to its person: `replies` are committed with it, `delivery` sends them."""
