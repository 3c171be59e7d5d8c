from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.text import strip_controls
from clew.transfer.markdown_html import (
    ALIGNS,
    CLASSES,
    CLEANER,
    LANGUAGES,
    LONGEST_CODE,
    NAMES,
    NESTING,
    SCHEMES,
    TAGS,
    get_style,
    render,
)
from clew.transfer.plain_html import link_up, to_paragraph, to_preformatted

VOID = {"br", "hr"}
BIDI = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Reader(HTMLParser):
    """What a browser would make of it, and whether that is allowed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self._check(tag, name, value or "")
        if tag == "a":
            assert dict(attrs)["rel"] == "noopener noreferrer nofollow"
            assert self.open.count("a") == 1

    def _check(self, tag: str, name: str, value: str) -> None:
        match tag, name:
            case "a", "href":
                assert urlsplit(value).scheme in SCHEMES, value
                self.links.append(value)
            case "a", "rel" | "target" | "title":
                pass
            case "ol", "start":
                assert value.isdigit()
            case "td" | "th", "align":
                assert value in ALIGNS
            case "pre" | "code" | "span", "class":
                assert value in CLASSES[tag], value
            case _:
                raise AssertionError(f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def read(html: str) -> Reader:
    """It read, after what holds for all HTML from here."""
    assert not BIDI.search(html)
    return Reader(html)


def read_clean(html: str) -> Reader:
    """Likewise, after what holds for all that was Markdown: cleaning finds no more."""
    assert CLEANER.clean(html) == html
    return read(html)


# --- what it is for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# One\n\ntwo", "<h1>One</h1>\n<p>two</p>\n"),
        ("*a* **b** ~~c~~ `d`",
         "<p><em>a</em> <strong>b</strong> <s>c</s> <code>d</code></p>\n"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"),
        ("3. a", '<ol start="3">\n<li>a</li>\n</ol>\n'),
        ("> said\n\n---", "<blockquote>\n<p>said</p>\n</blockquote>\n<hr>\n"),
        ("    code\n    <b>", "<pre><code>code\n&lt;b&gt;\n</code></pre>\n"),
        ("```nothing-known\n\na < b\n```", "<pre><code>\na &lt; b\n</code></pre>\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_markdown_becomes_html(text: str, html: str) -> None:
    assert render(text) == html


def test_tables_keep_how_their_columns_are_aligned() -> None:
    html = render("| name | number |\n|:-----|-------:|\n| one  | 1      |")
    assert '<th align="left">name</th>' in html
    assert '<td align="right">1</td>' in html


def test_code_is_coloured_by_classes_that_the_style_knows() -> None:
    html = render("```python\ndef f(): return 1\n```")
    assert '<span class="k">def</span>' in html
    assert ".highlight .k {" in get_style()


@pytest.mark.parametrize("name", NAMES)
def test_every_language_has_colours(name: str) -> None:
    html = render(f"```{name}\nx = 1\n```")
    assert read(html).text == "x = 1\n\n"
    assert f'class="language-{name}"' in html


def test_code_in_all_languages_keeps_its_text() -> None:
    code = "\n\tif (a < b && c > \"d\") { return 'é'; } # </code>\n\n"
    for name in LANGUAGES:
        assert read(render(f"```{name}\n{code}```")).text == code + "\n"


def test_code_that_is_too_long_has_no_colours() -> None:
    html = render("```python\n" + "x = 1\n" * LONGEST_CODE + "```")
    assert "<span" not in html


def test_addresses_in_a_sentence_are_links() -> None:
    found = read(render("See https://example.org/a_(b), (or http://b.example/?x=1&y=2).")).links
    assert found == ["https://example.org/a_(b)", "http://b.example/?x=1&y=2"]


@pytest.mark.parametrize(
    "text",
    ["https://", "https://.", "https://a.example@b.example", "https://a:b@c.example", "xhttp://a"],
)
def test_what_is_no_address_or_hides_where_it_leads_is_no_link(text: str) -> None:
    assert read(render(text)).links == []


def test_addresses_in_code_and_in_links_are_no_links_of_their_own() -> None:
    reader = read(render("`https://a.example` [https://b.example](https://c.example)"))
    assert reader.links == ["https://c.example"]


def test_images_are_links_with_their_text() -> None:
    reader = read(render("![a *fine* picture](https://a.example/x.png) ![](https://b.example/y)"))
    assert reader.links == ["https://a.example/x.png", "https://b.example/y"]
    assert reader.text == "a fine picture https://b.example/y\n"


def test_an_image_in_a_link_is_its_text() -> None:
    reader = read(render("[![built](https://a.example/x.svg)](https://b.example)"))
    assert reader.links == ["https://b.example"]
    assert reader.text == "built\n"


def test_plain_text_keeps_its_lines_and_spaces_and_marks() -> None:
    html = to_paragraph("if *a* < 1:\n    <b>\n\nhttps://a.example.")
    assert html.startswith("<p>if *a* &lt; 1:<br>    &lt;b&gt;<br><br><a ")
    assert read(html).links == ["https://a.example"]


def test_preformatted_text_is_what_it_was() -> None:
    assert to_preformatted("\n  <b>\n&amp;\n") == "<pre>  &lt;b&gt;\n&amp;amp;</pre>\n"


# --- those who mean harm ----------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)><math><mtext></form><form><mglyph><style></math><img src onerror=1>",
    "<style>@import 'https://evil.example'</style>",
    "<iframe srcdoc='<script>1</script>'></iframe>",
    "<!-- --><script>1</script><!-- -->",
    "<!--><img src=x onerror=1>-->",
    "<![CDATA[<script>1</script>]]>",
    "<?php echo 1 ?>",
    "<!DOCTYPE html>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "&amp;lt;script&amp;gt;",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](javascript&colon;alert(1))",
    "[a](java&#10;script:alert(1))",
    "[a](java&Tab;script:alert(1))",
    "[a](<java\tscript:alert(1)>)",
    "[a](&#1;javascript:alert(1))",
    "[a](\x01javascript:alert(1))",
    "[a](\u00a0javascript:alert(1))",
    "[a](%6aavascript:alert(1))",
    "[a](vbscript:x)",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](file:///etc/passwd)",
    "[a](//evil.example)",
    "[a](/v1/sessions)",
    "[a](..)",
    "[a](#x)",
    "[a]()",
    "[a](http:/v1/sessions)",
    "[a](https:javascript:alert(1))",
    "[a](blob:https://a.example/x)",
    "![a](javascript:alert(1))",
    "![a](data:image/svg+xml,<svg onload=alert(1)>)",
    "![a](data:image/png;base64,xx)",
    "![a](//evil.example/x.png)",
    '![a" onerror="alert(1)](https://a.example)',
    "![<img src=x onerror=1>](https://a.example)",
    "![![b](https://b.example)](https://a.example)",
    "[[a](https://a.example)](https://b.example)",
    "[![a](https://a.example)![b](https://b.example)](https://c.example)",
    '[a](https://a.example "\\" onclick=\\"alert(1)")',
    "[a](https://a.example '\"><script>1</script>')",
    '[a](https://a.example/"onclick=alert(1)//)',
    "[a](https://a.example/<script>)",
    "[a][1]\n\n[1]: javascript:alert(1)",
    "[a][1]\n\n[1]: https://a.example 'x\" onclick=\"1'",
    "[a]\n\n[a]: <data:text/html,x>",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "<https://a.example/'onclick=alert(1)>",
    "<a@b.example>",
    "https://a.example/\"onmouseover=alert(1)",
    "https://a.example/'><script>1</script>",
    "https://[::1 https://] http:// https://) https://@ HTTPS://A.EXAMPLE",
    "https://user:pass@a.example:99999/\\..\\x",
    "https://\u202egro.elpmaxe//:sptth",
    "javascript:alert(1) //https://a.example",
    '```"><script>alert(1)</script>\nx\n```',
    "```python onload=alert(1) class=x\nx\n```",
    "```python\n</code></pre><script>alert(1)</script>\n```",
    "~~~<b>\n</pre>\n~~~",
    "```&quot;&gt;&lt;script&gt;\nx\n```",
    "`</code><script>1</script>`",
    "| a |\n|:-:|\n| <td style=x onclick=1> |",
    "# a {#id .class onclick=1}",
    "- [x] <input>",
    "null \0 and &#0; and \x1b[31mred\x1b]8;;https://e.example\x07x",
    "bidi \u202e \u2066 &#x202e; &rlm; &#8238; <https://a.example/%E2%80%AE>",
    "half \ud83d and \udc00 &#xd83d;",
    "\r\r\n\u2028\u2029\x85\x0b\x0c",
    "a\n\n&#10;&#13;&NewLine;&nbsp;b",
    "<pre>\n\n\nx</pre>",
    "\n\n```\n\n\nx\n```",
    "<plaintext><xmp><noscript><template><textarea><title>",
    "</p></div></body></html>",
    "x" * 40_000,
    "word " * 9_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_hostile_becomes_more_than_text(text: str) -> None:
    read_clean(render(text))
    read_clean(render(text, colours=False))
    read(to_paragraph(strip_controls(text)))
    read(to_preformatted(strip_controls(text)))


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:x)",
        "[a](src/app.py)",
        "<script>x</script>",
        "![a](data:image/png;x)",
        "&amp;lt;b>"[5:],
    ],
)
def test_what_is_not_allowed_is_shown_as_it_was_written(text: str) -> None:
    assert read(render(text)).text == text + "\n"


# --- anything ---------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("*", "**", "_", "~~", "`", "```", "```python\n", "~~~\n", "[", "]", "](", ")", "![", "<"),
        *(">", "&", ";", "&#", "&lt;", '"', "'", "\\", "|", "|-|-|\n", "|a|b|\n", "\n", "\n\n"),
        *("    ", "\t", "- ", "1. ", "> ", "# ", "---\n", "===\n", "]: ", "[a]", "https://", "a"),
        *("http://a.example", "javascript:", "data:", "mailto:", "<!--", "-->", "<script>", "</a>"),
        *("\0", "\u202e", "\ud800", "\u200d", "é", "onclick=", "style=", "a@b.example", "://"),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


@given(TEXTS)
@example("<pre>\n\nx")
@example("[a](https://a.example 'b')" * 3)
def test_any_text_becomes_allowed_html(text: str) -> None:
    read_clean(render(text))
    clean = strip_controls(text)
    read(to_paragraph(clean))
    assert read(to_preformatted(clean)).text == clean.strip("\n") + "\n"
    assert read(link_up(clean)).text == clean


@given(st.lists(st.from_regex(r"[A-Za-zäöü]{1,12}", fullmatch=True), min_size=1, max_size=60))
def test_plain_words_stay(words: list[str]) -> None:
    text = " ".join(words)
    assert render(text) == f"<p>{text}</p>\n"


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "> - "])
def test_no_text_is_lost_to_deep_nesting(mark: str) -> None:
    for depth in range(1, 2 * NESTING):
        html = render(mark * depth + "kept\n\nafter")
        assert "kept" in html
        assert "after" in html


# --- texts that are much work -----------------------------------------------------------------

SIZE = 20_000
MUCH = {
    "brackets": "[" * SIZE,
    "images": "![" * (SIZE // 2),
    "pairs": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "links": "[a](" * (SIZE // 4),
    "nested links": "[" * (SIZE // 5) + "a" + "](b)" * (SIZE // 5),
    "quotes": ">" * SIZE,
    "stars": "*" * SIZE,
    "emphasis": "*a_ " * (SIZE // 4),
    "ticks": "".join("e" + "`" * count for count in range(1, 200)),
    "lists": "\n".join(" " * count + "- a" for count in range(200)),
    "references": "[\n" * (SIZE // 2),
    "addresses": "http://" * (SIZE // 7),
    "brackets behind an address": "http://a/" + ")" * SIZE,
    "entities": "&" * SIZE,
    "comments": "<!-- " * (SIZE // 5),
    "wide table": "|" * SIZE + "\n" + "|-" * SIZE + "\n",
    "hungry table": "|a" * 140 + "|\n" + "|-" * 140 + "|\n" + "x\n" * (SIZE // 2),
}


@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", MUCH)
def test_much_work_comes_to_an_end_and_a_bounded_page(name: str) -> None:
    html = render(MUCH[name])
    assert len(html) <= 15 * len(MUCH[name])


def test_a_table_of_more_cells_than_characters_is_text() -> None:
    assert "<table>" not in render(MUCH["hungry table"])
    assert "<table>" in render("|a|b|\n|-|-|\n" + "|c|d|\n" * 1_000)
