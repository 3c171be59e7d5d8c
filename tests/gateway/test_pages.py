"""The dashboard's files: where they are, what they may load, and how its modules are joined."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.gateway.pages import PAGES, join_modules
from tests.gateway.conftest import House

MAX_BYTES = 250_000


async def test_every_page_is_the_same_document(house: House) -> None:
    texts = {(await house.ask("GET", path.replace("{id}", "new"))).text for path in PAGES}
    assert len(texts) == 1


async def test_pages_run_scripts_of_the_gateway_only_and_parse_no_html_by_accident(
    house: House,
) -> None:
    policy = (await house.ask("GET", "/")).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    page = (await house.ask("GET", "/")).text
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", page)


async def test_a_browser_that_has_a_file_does_not_load_it_again(house: House) -> None:
    first = await house.ask("GET", "/app.js")
    again = await house.ask("GET", "/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_file_is_sent_packed_to_those_who_can_unpack_it(house: House) -> None:
    plain = await house.ask("GET", "/app.css", headers={"Accept-Encoding": "identity"})
    packed = await house.ask("GET", "/app.css", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    assert len(gzip.compress(plain.content)) < len(plain.content)


async def test_the_dashboard_stays_small(house: House) -> None:
    sizes = {
        path: len((await house.ask("GET", path, headers={"Accept-Encoding": "identity"})).content)
        for path in ("/", "/app.js", "/app.css", "/icon.svg", "/manifest.webmanifest", "/worker.js")
    }
    assert sum(sizes.values()) <= MAX_BYTES, sizes


def run(script: str, tmp_path: Path) -> str:
    program = shutil.which("node")
    assert program is not None, "node is not here; `make test` installs it"
    (tmp_path / "joined.js").write_text(script)
    done = subprocess.run(
        [program, "joined.js"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_joined_modules_do_what_they_do_apart(tmp_path: Path) -> None:
    modules = {
        "main.js": (
            'import { add, names as words } from "./parts/sum.js";\n'
            'import { Counter } from "./counter.js";\n'
            'import "./effect.js";\n'
            "const hidden = new Counter();\nhidden.count();\n"
            "console.log(JSON.stringify([add(1, 2), words, hidden.at, globalThis.effect]));\n"
        ),
        "counter.js": "const hidden = 1;\nexport class Counter { at = 0; count() "
        "{ this.at += hidden; } }\n",
        "parts/sum.js": (
            'import {\n  one,\n  two,\n} from "../numbers.js";\n'
            "export function add(a, b) { return (a + b) * one; }\n"
            "export const names = [one, two];\n"
        ),
        "numbers.js": "export const one = 1;\nexport const two = 2;\n",
        "effect.js": "globalThis.effect = true;\n",
        "unused.js": "throw new Error('nobody imports this');\n",
    }
    script = join_modules(modules, "main.js")
    assert json.loads(run(script, tmp_path)) == [3, [1, 2], 1, True]
    assert "nobody imports this" not in script


def test_comments_are_for_those_who_read_the_files(tmp_path: Path) -> None:
    text = """// Said of the module, with a ` in it.

/**
 * Said of a function.
 *
 * @param {any} value
 */
function show(value) {
  // Said inside.
  return /** @type {any} */ (value) ?? "//kept /* kept */"; // kept
}
/** @type {string[]} */
const all = [show(null), show(/\\/\\*\\* /.source), show(`one
  two`)];
console.log(JSON.stringify(all));
"""
    script = join_modules({"main.js": text}, "main.js")
    assert "Said" not in script
    assert "@" not in script
    assert json.loads(run(script, tmp_path)) == ["//kept /* kept */", r"\/\*\* ", "one\n  two"]


def test_spaces_are_left_out_where_they_say_nothing(tmp_path: Path) -> None:
    text = r"""const one = 1;
const all = [
  `a , b ${[one, `c ; ${"}"} d`].map((each) => each).join(" , ")} e`,
  "kept  ,  kept".replace(/ , +/g, "/ /"),
  one / 2 / 1,
  one + +one - -one,
  [1, 2].map((each) => /["'] ,/.test(`${each}" ,`)),
];
function find(text) {
  return / ; /.test(text);
}
const name = "x"
const more = {
  name,
  in: "name" in { name: 1 } ? typeof name : null,
}
all.push(find("a ; b"), more);
console.log(JSON.stringify(all));
"""
    script = join_modules({"main.js": text}, "main.js")
    assert "const one=1;const all=[" in script
    assert "function find(text){return / ; /.test(text)}" in script
    assert "?typeof name:null}" in script
    assert json.loads(run(script, tmp_path)) == [
        "a , b 1 , c ; } d e", "kept / /kept", 0.5, 3, [True, True], True,
        {"name": "x", "in": "string"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('import { a } from "./main.js";\n', "modules in a circle: main.js > main.js"),
        ('import { a } from "./gone.js";\n', "main.js imports gone.js: not there"),
        ("export default 1;\n", "can't be joined"),
        ("export let count = 0;\n", "can't be joined"),
        ('import all from "./other.js";\n', "can't be joined"),
        ('const later = await import("./other.js");\n', "can't be joined"),
    ],
)
def test_what_can_not_be_joined_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        join_modules({"main.js": text, "other.js": ""}, "main.js")
