"""Files of messages, in process and over HTTP."""

from __future__ import annotations

import httpx
import pytest

from clew.client.client import Client
from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.tokens import ALL
from clew.errors import BlobNotFound, InvalidInput, SessionNotFound
from clew.runtime.lane.lease import hold
from tests.client.conftest import Place

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + b"\0" * 8,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 8,
    "image/gif": b"GIF89a" + b"\0" * 8,
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}
OTHERS = {
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "html": b"<!doctype html><script>alert(1)</script>",
    "wave": b"RIFF\0\0\0\0WAVEfmt ",
    "empty": b"",
}


async def say_with(place: Place, session_id: str, data: bytes, media_type: str) -> str:
    """A message with a file, whose sender says what it is."""
    blob = await place.store.put_blob(data, media_type)
    async with hold(place.store, session_id, "test") as lease:
        draft = Draft(role="user", content="see", parts=({"blob": blob},))
        await place.store.record(session_id, lease.epoch, AddMessage(draft))
    return blob


async def test_a_file_is_read_by_who_sees_a_session_that_has_it(
    place: Place, client: Client
) -> None:
    mine = await place.session("cli:1")
    theirs = await place.session("cli:2", person="telegram:7")
    guest = await place.client("telegram:7", ("read",))
    secret = await say_with(place, mine.id, PICTURES["image/png"], "image/png")
    shared = await say_with(place, theirs.id, b"%PDF-1.7", "application/pdf")

    file = await client.blobs.get(secret, session=mine.id)
    assert (file.content, file.media_type) == (PICTURES["image/png"], "image/png")
    assert (await guest.blobs.get(shared, session=theirs.id)).content == b"%PDF-1.7"
    assert (await client.blobs.get(shared, session=theirs.id)).content == b"%PDF-1.7"
    with pytest.raises(SessionNotFound):
        await guest.blobs.get(secret, session=mine.id)
    with pytest.raises(BlobNotFound):
        await guest.blobs.get(secret, session=theirs.id)
    with pytest.raises(BlobNotFound):
        await client.blobs.get("0" * 64, session=mine.id)
    with pytest.raises(InvalidInput):
        await client.blobs.get("../etc/passwd", session=mine.id)
    await client.sessions.delete(mine.id)
    with pytest.raises(SessionNotFound):
        await client.blobs.get(secret, session=mine.id)


@pytest.mark.parametrize("place", ["http"], indirect=True)
@pytest.mark.parametrize("name", [*PICTURES, *OTHERS])
async def test_only_four_kinds_of_pictures_are_shown_whatever_their_senders_say(
    place: Place, name: str
) -> None:
    session = await place.session()
    data = (PICTURES | OTHERS)[name]
    blob = await say_with(place, session.id, data, "image/png" if name in OTHERS else "text/html")
    secret = await place.add_token("owner", ALL)
    async with httpx.AsyncClient(base_url=place.url) as browser:
        answer = await browser.get(
            f"/v1/blobs/{blob}?session={session.id}", headers={"Authorization": f"Bearer {secret}"}
        )
    assert answer.content == data
    headers = answer.headers
    shown, _, _ = headers["content-disposition"].partition(";")
    assert shown == ("inline" if name in PICTURES else "attachment")
    expected = name if name in PICTURES else "application/octet-stream"
    assert headers["content-type"] == expected
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
