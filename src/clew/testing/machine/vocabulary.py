"""What histories are made of. Few keys, few words, few sessions: things happen to the same ones."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from clew.core.message import Role

KEYS: Final = ("cli:a", "cli:b", "tg:c")
PEOPLE: Final = ("owner", "owner", "tg:7")
WORDS: Final = ("apple", "banana", "cherry", "狐狸", "使う", "ключ")
MOST: Final = 6
"""Sessions of one history."""

keys = st.sampled_from(KEYS)
which = st.integers(0, MOST - 1)
some = st.lists(which, min_size=1, max_size=3)
words = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
roles: st.SearchStrategy[Role] = st.sampled_from(("user", "assistant"))
spoken = st.lists(st.tuples(roles, words), min_size=1, max_size=3)
counts = st.none() | st.integers(0, 6)
seqs = st.none() | st.integers(-1, 9)
viewers = st.sampled_from(("owner", "tg:7", "tg:8"))
