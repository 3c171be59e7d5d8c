from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.redaction import _compile_secrets, redact
from clew.core.text import (
    ESCAPE,
    columns,
    cut,
    decode_text,
    encode_text,
    fold,
    pad,
    reveal_controls,
    strip_controls,
)
from tests.sizes import pick

LONG = pick(200_000, 1_000_000)
"""Characters: with work in their square, either of them takes for ever."""

ANY = st.text(st.characters(), max_size=200)
AWKWARD = st.lists(
    st.sampled_from([*'a1 \n\t\r\0é日👍()/-"', ESCAPE, "\ud800", "\udfff", "\u200d", "\ufeff"])
).map("".join)
TERMINAL = st.lists(
    st.sampled_from(
        [
            "\x1b",
            "\x9b",
            "\x9d",
            "\x90",
            "\x9c",
            "\x07",
            "[",
            "]",
            "31m",
            "0;",
            "P",
            "\\",
            "\r",
            "\n",
            "a",
            "é",
            "क",
            "\u200d",
            "\u200c",
            "\u202e",
            "\u2066",
            "\u200b",
            "\ud83d",
            "\x85",
            "\t",
        ]
    )
).map("".join)


# --- at the boundary of a store


@given(st.one_of(ANY, AWKWARD))
def test_every_string_comes_back_from_the_store_as_it_was(text: str) -> None:
    encoded = encode_text(text)
    assert "\0" not in encoded
    assert encoded.encode().decode() == encoded
    assert decode_text(encoded) == text


@given(st.one_of(ANY, AWKWARD))
def test_what_was_never_encoded_can_still_be_decoded(text: str) -> None:
    assert isinstance(decode_text(text), str)


@pytest.mark.parametrize(
    "text", ["", "plain", "two\nlines\t", "héllo", "日本語", "👩‍👩‍👧", "\ufdd0"]
)
def test_ordinary_text_is_not_even_copied(text: str) -> None:
    assert encode_text(text) is text
    assert decode_text(text) is text


def test_all_surrogates_have_their_own_escape() -> None:
    surrogates = "".join(map(chr, range(0xD800, 0xE000)))
    assert decode_text(encode_text(surrogates)) == surrogates
    assert len({encode_text(one) for one in surrogates}) == 0x800


def test_an_escape_holds_no_letters_that_a_search_could_take_for_a_word() -> None:
    encoded = encode_text("hello\0wor\udfffld\ud83d")
    assert "".join(c for c in encoded if c.isalnum()) == "helloworld"
    assert not encoded.isalnum()


# --- comparing


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAFÉ", "café"),
        ("café", "cafe"),
        ("e\u0301cole", "École"),
        ("Ｐｙｔｈｏｎ", "python"),
        ("ΆΛΦΑ", "αλφα"),
        ("Ёлка", "елка"),
        ("straße", "STRASSE"),
        ("ｶﾞ", "ガ"),
        ("İstanbul", "istanbul"),
        ("\u1112\u1161\u11ab", "한"),
    ],
)
def test_texts_that_read_alike_fold_alike(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize("text", ["が", "パ", "한국어", "ไม่", "น้ำ".replace("ำ", "า"), "हिन्दी"])
def test_marks_that_are_letters_to_their_readers_stay(text: str) -> None:
    assert fold(text) == text


def test_a_voiced_kana_differs_from_its_plain_one() -> None:
    assert fold("が") != fold("か")
    assert fold("か\u3099") == fold("が")


@given(ANY)
def test_folding_twice_changes_nothing(text: str) -> None:
    once = fold(text)
    assert fold(once) == once


def test_a_long_run_of_marks_is_not_sorted_in_quadratic_time() -> None:
    # Unbounded, this takes a quarter of an hour.
    assert fold("a" + "\u0e38\u0e48" * 500_000).startswith("a")


# --- showing


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b1;31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d52;c;ZXZpbA==\x9ctext", "text"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x1b]0;never ends\nnext line", "\nnext line"),
        ("\x1b(Btext\x1bc", "text"),
        ("a\x1b\x1b[0m[31mb", "a[31mb"),
        ("a\x08b\x7fc\x81d", "abcd"),
        ("kni\x9eka", "knika"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("col\tumn", "col\tumn"),
        ("user\u202egnp.exe\u2066x", "usergnp.exex"),
        ("a\u200bb\ufeffc\u2060d\u00ade", "abcde"),
        ("pass\u200dword", "password"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("é\u200d\u200d\u200dé", "éé"),
        ("\ud83d!", "\ufffd!"),
        ("hi\U000e0041\U000e0042", "hi"),
    ],
)
def test_what_drives_a_terminal_or_deceives_a_reader_is_stripped(text: str, plain: str) -> None:
    assert strip_controls(text) == plain


def test_one_line_is_one_line() -> None:
    assert strip_controls("a\nb\r\nc\u2029d\te", keep_newlines=False) == "a b c d\te"


@given(st.one_of(ANY, TERMINAL))
def test_no_control_survives_and_stripping_twice_changes_nothing(text: str) -> None:
    plain = strip_controls(text)
    assert not [c for c in plain if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert "\n" not in strip_controls(text, keep_newlines=False)
    assert strip_controls(plain) == plain


@pytest.mark.parametrize(
    "unit", ["\x1b", "\x1b]", "\x1b[0", "\x9e", "\x9da", "\x1bP\x1b", "\u200d"]
)
def test_a_long_text_of_half_escapes_is_stripped_in_linear_time(unit: str) -> None:
    assert len(strip_controls(unit * (LONG // len(unit)))) <= LONG // 2


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("ｱ", 1),
        ("e\u0301", 1),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("❤\ufe0f", 2),
        ("🇩🇪", 2),
        ("한", 2),
        ("\u1112\u1161\u11ab", 2),
        ("ไม่", 2),
        ("…", 1),
    ],
)
def test_columns_are_what_a_terminal_draws(text: str, width: int) -> None:
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("hello", 5, "hello"),
        ("hello!", 5, "hell…"),
        ("日本語", 5, "日本…"),
        ("日本語", 6, "日本語"),
        ("日本語", 4, "日…"),
        ("ab cd", 4, "ab…"),
        ("hello", 1, "…"),
        ("hello", 0, ""),
        ("", 0, ""),
        ("👩\u200d👧👩\u200d👧", 3, "👩\u200d👧…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_cutting_keeps_characters_whole(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@given(ANY.map(strip_controls), st.integers(0, 50))
def test_a_cut_is_never_wider_than_asked_for(text: str, width: int) -> None:
    assert columns(cut(text, width)) <= width
    if columns(text) <= width and text:
        assert cut(text, width) == text


@given(ANY.map(strip_controls), st.integers(0, 50), st.sampled_from(["left", "right", "center"]))
def test_padding_fills_up_to_the_width(text: str, width: int, align: str) -> None:
    padded = pad(text, width, align)  # type: ignore[arg-type]
    assert columns(padded) == max(width, columns(text))
    assert text in padded


def test_padding_puts_the_text_where_it_was_asked_for() -> None:
    assert [pad("日", 5), pad("日", 5, "right"), pad("日", 5, "center")] == [
        "日   ",
        "   日",
        " 日  ",
    ]


# --- exporting

SECRETS = [
    ("OPENAI_API_KEY=sk-proj-abcDEF1234567890abcdef", "OPENAI_API_KEY=[redacted]"),
    ("use sk-abc123def456ghi789 here", "use sk-[redacted] here"),
    ("use sk-ant-" + "api03-aaaaBBBBcccc1111 here", "use sk-ant-[redacted] here"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_[redacted]"),
    ("github_pat_11ABCDEFG0abcdefghij_klmnop", "github_pat_[redacted]"),
    ("xoxb-1234567890-abcdefghij", "xoxb-[redacted]"),
    ("AKIA" + "IOSFODNN7EXAMPLE", "AKIA[redacted]"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIza[redacted]"),
    ("glpat-abcdefghij1234567890", "glpat-[redacted]"),
    ("hf_abcdefghijklmnopqrstuvwx", "hf_[redacted]"),
    ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm_[redacted]"),
    ("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "123456789:[redacted]"),
    (
        "/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1/getMe",
        "/bot123456789:[redacted]/getMe",
    ),
    ("xapp-" + "1-A0123456789-abcdef", "xapp-[redacted]"),
    (
        "token is MTIzNDU2Nzg5MDEyMzQ1Njc4." + "GabcDe.abcdefghijklmnopqrstuvwxyz0123456789AB now",
        "token is [redacted] now",
    ),
    ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [redacted]"),
    ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [redacted]"'),
    ("curl -H 'x-api-key: abcdefgh12'", "curl -H 'x-api-key: [redacted]'"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF", "eyJ[redacted]"),
    ("password=hunter2hunter2 next", "password=[redacted] next"),
    ("host=db password=x1 user=me", "host=db password=[redacted] user=me"),
    ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted] psql"),
    ("--password=hunter2", "--password=[redacted]"),
    ("/?password=hunter2&user=me", "/?password=[redacted]"),
    ("mysqldump --password hunter2 --all", "mysqldump --password [redacted] --all"),
    ("clew --db-password 'my own' x", "clew --db-password '[redacted]' x"),
    ("gh auth --token abcdefgh12 x", "gh auth --token [redacted] x"),
    ("run --api-key Abcdefghijk", "run --api-key [redacted]"),
    ("clew pair approve KXTM-QWRA", "clew pair approve [redacted]"),
    ("/pair KXTM-QWRA", "/pair [redacted]"),
    ("give my owner this code: KXTM-QWRA\n", "give my owner this code: [redacted]\n"),
    ("Server=db;Pwd=a;Database=x", "Server=db;Pwd=[redacted]"),
    ("connect(password='hunter2', x=1)", "connect(password='[redacted]', x=1)"),
    ('{"passwd": "abc"}', '{"passwd": "[redacted]"}'),
    (f"clew_{'aB3-' * 10}_xy", "clew_[redacted]"),
    (f"Cookie: clew_7f=clew_{'aB3-' * 10}_xy; a=b", "Cookie: clew_7f=clew_[redacted]; a=b"),
    (
        f"open http://127.0.0.1:7700/#code={'aB3_' * 10}-xy",
        "open http://127.0.0.1:7700/#code=[redacted]",
    ),
    (f'{{"code": "{"aB3_" * 10}-xy"}}', '{"code": "[redacted]"}'),
    ('"password": "correct horse\'s battery", "x": 1', '"password": "[redacted]", "x": 1'),
    (r"{\"db_password\": \"abcdefghi\"}", r"{\"db_password\": \"[redacted]\"}"),
    ("api_key: abcdefgh", "api_key: [redacted]"),
    ("connect(token=abcdefghij)", "connect(token=[redacted])"),
    ("token: `abcdefgh`", "token: `[redacted]`"),
    ("postgres://me:p@ss@db/x", "postgres://me:[redacted]@db/x"),
    ("redis://:hunter2@host", "redis://:[redacted]@host"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\nMIIabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----",
    ),
    (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nMIIEvQIBADANBgkqhkiG\nand then",
        "-----BEGIN PRIVATE KEY-----[redacted]\nand then",
    ),
]


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_secrets_are_masked_and_their_names_stay(text: str, masked: str) -> None:
    assert redact(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 100000000",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "token = get_token()",
        "def run(token: Optional[str])",
        "--token=${GITHUB_TOKEN}",
        "--token $GITHUB_TOKEN --password PASSWORD --password --token file:secret2.txt",
        "give --password to the command, or --token something",
        "a pair of ABCD-EFG and the code of 12-34, PART-NUMB",
        "password: it has to be long enough",
        "def run(password=None, passwd=True)",
        "password=getpass() or pwd=self.pwd",
        "password=$PASSWORD or password=${PASSWORD} or password=<yours> or password={password}",
        "if password == other",
        "the table clew_schema_unfinished",
        "exit code=137, code=not_a_transcript",
        "risk-averse, task-based, sk-learn-something-very-long",
        "Bearer authentication",
        "http://localhost:8080/@scope/package",
        "The secret of a good basic understanding",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    ],
)
def test_prose_and_code_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_secrets_are_masked_in_any_case_that_is_taken_for_theirs(text: str, masked: str) -> None:
    """The words that a text is looked through for first miss nothing that is masked."""
    strange = text.replace("s", "\u017f").replace("i", "\u0131")
    for changed in (text.upper(), text.lower(), strange):
        expected = changed
        for _, secret in _compile_secrets()[1]:
            expected = secret.sub(r"\g<keep>[redacted]\g<tail>", expected)
        assert redact(changed) == expected


FRAGMENTS = [text for text, _ in SECRETS] + [masked for _, masked in SECRETS]
GLUE = [
    " ",
    "\n",
    "=",
    ":",
    "'",
    '"',
    "\\",
    "(",
    ")",
    "[",
    "]",
    "@",
    "/",
    "-",
    "token",
    "password=",
    "a1",
]


@given(st.lists(st.sampled_from(FRAGMENTS + GLUE), max_size=12).map("".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "eyJ",
        "eyJaaaaaaaaa.",
        "sk-",
        "sk-a",
        "token=",
        "token=a(",
        "token=)",
        "token=f(a[",
        "token=f() ",
        "token=f()",
        "AKIA",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
        "-",
        "://",
        "://a:",
        "://:@",
        'password: "',
        "password:'a\\",
        "authorization: ",
        "bearer ",
        "12345678:",
        "password=",
        "password=a",
        "--password ",
        "--a-",
        "--token a",
        "pair ",
        "code ABCD-",
        "password=a(",
        "pwd='",
        "clew_",
        "code=",
    ],
)
def test_a_long_text_made_to_be_slow_is_masked_in_linear_time(unit: str) -> None:
    # Quadratic work on this would take minutes: finishing is the proof.
    assert redact(unit * (LONG // len(unit)))


@given(text=st.text())
@example(text="a\x85b\x1b[2K\u2028\u202e\u200b\r\n\ud800")
def test_what_is_revealed_has_nothing_left_to_strip(text: str) -> None:
    assert strip_controls(reveal_controls(text)) == reveal_controls(text)
