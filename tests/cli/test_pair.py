"""`clew pair`."""

from __future__ import annotations

from clew.core.channels.people import NewPairing, Pairing
from clew.ports import Store
from tests.cli.conftest import Home


def ask(home: Home, person: str, code: str, name: str | None = None) -> None:
    async def keep(store: Store) -> Pairing | None:
        channel = person.partition(":")[0]
        new = NewPairing(person=person, channel=channel, code=code, name=name)
        return await store.ask_pairing(new, most=9)

    assert home.store(keep) is not None


def test_nobody_asks_on_a_new_clew(home: Home) -> None:
    told = home.clew("pair", "list")
    assert told.exit_code == 0
    assert "There are no guests" in told.stdout
    assert home.json("pair", "list") == {"pairings": []}


def test_who_asks_is_shown_with_their_code_and_let_in_by_it(home: Home) -> None:
    ask(home, "telegram:7", "ABCDEFGH", "Ann \x1b[31m")
    shown = home.clew("pair", "list").stdout
    assert "telegram:7" in shown
    assert "Ann" in shown
    assert "ABCD-EFGH" in shown
    assert "\x1b[31m" not in shown

    paired = home.clew("pair", "approve", "abcd-efgh")

    assert paired.exit_code == 0, paired.stderr
    assert "(telegram:7) is let in." in paired.stdout
    listed = home.clew("pair", "list").stdout
    assert "let in" in listed
    assert "ABCD" not in listed


def test_a_code_is_valid_once(home: Home) -> None:
    ask(home, "telegram:7", "ABCDEFGH")
    assert home.clew("pair", "approve", "ABCDEFGH").exit_code == 0
    again = home.clew("pair", "approve", "ABCDEFGH")
    assert again.exit_code == 2
    assert "is not valid" in again.stderr
    assert "Nothing was changed" in again.stderr


def test_somebody_who_never_asked_can_be_let_in_or_kept_out(home: Home) -> None:
    assert home.json("pair", "approve", "slack:U7")["status"] == "paired"
    assert home.json("pair", "refuse", "slack:u7")["status"] == "refused"
    wrong = home.clew("pair", "refuse", "nobody")
    assert wrong.exit_code == 2
    assert "telegram:456" in wrong.stderr
