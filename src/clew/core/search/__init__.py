"""Search: `query` reads what a person typed, `stems` makes word stems, `hits` is what is found."""
