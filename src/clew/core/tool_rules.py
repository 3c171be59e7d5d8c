"""The rules that allow or deny tool calls: whether a call may run, must be asked about, or may not.

A rule is one line of text:

    write_file            any call of this tool inside the workspace
    write_file:docs/**    calls whose path fits; a pattern that begins with / is for paths outside
    shell:git log         a single plain command that begins with these words, without options that
                          name a file to write or a program to run
    shell=make test       exactly this command, whatever is in it
    github_*              tools by pattern, such as all of one MCP server

In paths `*` stays within a directory and `**` crosses them. A rule of the deny list wins over any
of the allow list. What a tool does, and how the owner is asked, is not known here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from clew.errors import InvalidInput

Verdict = Literal["allow", "ask", "deny"]

READING: Final = frozenset({
    "read_file", "list_files", "search_files", "session_search", "sessions_list", "session_read",
    "memory_read", "scratchpad_read", "scratchpad_list", "todo_read",
})  # fmt: skip
"""Tools that change nothing."""

NOTES: Final = frozenset({"scratchpad_write", "scratchpad_delete", "todo_write", "propose_plan"})
"""Tools that change nothing but the session's own notes."""

UNASKED: Final = READING | NOTES | {"memory_write", "spawn"}
"""Tools that don't ask, unless they reach outside the workspace."""

MAX_RULE: Final = 500
"""A longer command can be allowed once, but not remembered."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # no file can hold it
_NAME: Final = re.compile(r"[A-Za-z0-9_*?.-]+")
# What could end a command, begin another, or insert words that the owner did not see.
_META: Final = re.compile(r"[;&|`$<>(){}\\\n\r\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_PARTS: Final = re.compile(r"[;&|`$<>(){}\n\r]+")
# A variable that make and others obey, and a pattern that may become an option.
_ODD_WORD: Final = re.compile(r"[A-Za-z_.][\w.]*[+:?]?=|[*?\[]|-.*[*?\[]")
# -o and -O, alone or behind other letters; and what find does to files.
_WRITING_LETTERS: Final = re.compile(r"-([A-Za-z0-9]*[oO]|exec|delete|fprint|fls)")
_WRITING_OPTIONS: Final = (
    "output", "exec", "ext-diff", "textconv", "open-files-in-pager", "pre", "to-command",
    "use-compress-program", "compress-program", "checkpoint-action", "upload-pack", "receive-pack",
    "rsh",
)  # fmt: skip
"""Options of usual programs that write a file or run a program. Many programs take a beginning."""


class Rule(msgspec.Struct, frozen=True):
    """A parsed rule: `tool` is a pattern, `text` what follows the `kind` sign, if any."""

    tool: str
    kind: Literal["", ":", "="] = ""
    text: str = ""


@lru_cache(maxsize=1024)
def parse_rule(text: str) -> Rule:
    """Parse a rule; `InvalidInput` says what is wrong with it."""
    match = _NAME.match(text)
    name = match[0] if match else ""
    sign, rest = text[len(name) : len(name) + 1], text[len(name) + 1 :]
    if not name or sign not in ("", ":", "="):
        raise InvalidInput(
            f'"{text[:80]}" is not a rule. Write a tool (write_file), a tool and a path '
            "(write_file:docs/**), or the beginning of a command (shell:git log)."
        )
    if sign == "":
        return Rule(name)
    if sign == "=" or name != "shell":
        if not rest.strip():
            raise InvalidInput(f'The rule "{text}" has nothing behind the {sign}.')
        return Rule(name, ":" if sign == ":" else "=", rest)
    if not _plain_words(rest):
        raise InvalidInput(
            f'The rule "{text[:80]}" must name the first words of one plain command, '
            "without ; & | $ < > or the like. An exact command is shell=COMMAND."
        )
    return Rule(name, ":", rest)


def judge(
    tool: str,
    arguments: Mapping[str, Any],
    mode: str | None,
    allow: Iterable[str],
    deny: Iterable[str],
) -> Verdict:
    """Decide about one call.

    `arguments["path"]`, where there is one, is relative for what lies inside the workspace and
    absolute for what lies outside; `arguments["secret"]` is true for a file that may hold secrets;
    `arguments["command"]` is the shell's.
    """
    if any(_denies(parse_rule(rule), tool, arguments) for rule in deny):
        return "deny"
    if mode == "plan" and tool not in READING | NOTES:
        return "deny"
    if any(_allows(parse_rule(rule), tool, arguments) for rule in allow):
        return "allow"
    if tool in UNASKED and not is_guarded(tool, arguments):
        return "allow"
    return "ask"


def rule_for(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The rule that an answer "for this session" or "always" adds; None if none may be kept.

    A command is remembered word for word, since more words could make it another one. A path
    outside the workspace, or of a file that may hold secrets, is remembered alone.
    """
    command = arguments.get("command")
    if tool == "shell" and isinstance(command, str):
        rule = f"shell={command}"
    elif is_guarded(tool, arguments):
        rule = f"{tool}={arguments['path']}"
    else:
        rule = tool
    return rule if len(rule) <= MAX_RULE and not _SURROGATE.search(rule) else None


def is_guarded(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the call's path needs a rule of its own.

    It does outside the workspace, for a file that may hold secrets (`arguments["secret"]`), and for
    a write to `.git`: what is written there can be run by the next harmless `git` command.
    """
    path = arguments.get("path")
    if not isinstance(path, str):
        return False
    if _is_absolute(path) or arguments.get("secret"):
        return True
    return tool not in READING and ".git" in path.casefold().split("/")


def matches_path(pattern: str, path: str) -> bool:
    """Whether a path fits a pattern: `*` and `?` stay within a directory, `**` crosses them."""
    return _path_pattern(pattern).fullmatch(path) is not None


def _allows(rule: Rule, tool: str, arguments: Mapping[str, Any]) -> bool:
    if not fnmatchcase(tool, rule.tool):
        return False
    if rule.kind == "":
        return not is_guarded(tool, arguments)
    given = arguments.get("command" if tool == "shell" else "path")
    if not isinstance(given, str):
        return False
    if rule.kind == "=" or arguments.get("secret"):
        return given == rule.text  # a pattern is not meant for keys and passwords
    if tool == "shell":
        words, prefix = _plain_words(given), _plain_words(rule.text)
        return _begins(words, prefix) and all(map(_is_harmless, words[len(prefix) :]))
    # `**/*.md` means those of the workspace, not all of the machine's.
    return _is_absolute(given) == _is_absolute(rule.text) and matches_path(rule.text, given)


def _denies(rule: Rule, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Like `_allows`, but matches in doubt: any part of a command, any path of a tool."""
    if not fnmatchcase(tool, rule.tool):
        return False
    if rule.kind == "":
        return True
    if tool != "shell":
        path = str(arguments.get("path", ""))
        return path == rule.text if rule.kind == "=" else matches_path(rule.text, path)
    command = str(arguments.get("command", ""))
    if rule.kind == "=":
        return command.strip() == rule.text.strip()
    prefix = _plain_words(rule.text)
    bare = re.sub(r"""["'\\]""", "", command)
    return any(_begins(part.split(), prefix) for part in _PARTS.split(bare))


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:2] == ":"  # a drive of Windows


def _begins(words: list[str], prefix: list[str]) -> bool:
    return bool(prefix) and words[: len(prefix)] == prefix


def _is_harmless(word: str) -> bool:
    """Whether a word behind the beginning of a command can be let pass.

    Not if it may name a file to write, a program to run, or a file that may hold secrets.
    """
    if _ODD_WORD.match(word) or any(map(is_confidential, re.split("[=:,@]", word))):
        return False
    if not word.startswith("--"):
        return _WRITING_LETTERS.match(word) is None
    name = word[2:].partition("=")[0]
    return not name.startswith("out") and not any(
        name and each.startswith(name) for each in _WRITING_OPTIONS
    )


def _plain_words(command: str) -> list[str]:
    """The words of one plain command; empty if it is more than that, or can't be read."""
    if _META.search(command):
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []


@lru_cache(maxsize=256)
def _path_pattern(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(signs.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


# --- paths of files that may hold secrets --------------------------------------------------------

CONFIDENTIAL: Final = r"""
      # what programs keep credentials in
      (?: ^ | / ) (?: \.ssh | \.aws | \.azure | \.gnupg | \.kube | \.password-store | [._]netrc
        | \.env[^/]* | \.pgpass | \.my\.cnf | \.pypirc | \.git-credentials
        | \.docker/config\.json | \.config/(?: gcloud | gh ) | \.local/share/keyrings
        | Library/Keychains | gateway\.token ) (?: / | $ )
      # private keys
    | (?: ^ | / ) (?: id_(?: rsa | dsa | ecdsa | ed25519 )(?: _sk )?
        | [^/]+ \. (?: pem | key | p12 | pfx | ppk | jks | keystore | kdbx ) ) $
      # profiles of browsers and mail programs
    | (?: ^ | / ) (?: \.mozilla | \.librewolf | \.thunderbird
        | \.config/(?: google-chrome[^/]* | chromium | BraveSoftware | microsoft-edge[^/]* | vivaldi
          | opera )
        | snap/(?: firefox | chromium )
        | \.var/app/(?: org\.mozilla\.[^/]+ | com\.google\.Chrome | org\.chromium\.Chromium
          | com\.brave\.Browser )
        | Library/Safari
        | Library/Application\ Support/(?: Google/Chrome | Chromium | Firefox | BraveSoftware
          | Microsoft\ Edge | Vivaldi )
        | AppData/(?: Local | Roaming )/(?: Google/Chrome | Mozilla | Microsoft/Edge
          | BraveSoftware ) ) (?: / | $ )
    | (?: ^ | / ) (?: cookies\.sqlite | logins\.json | key[34]\.db | Login\ Data ) $
      # of the system
    | ^ /etc/(?: shadow | gshadow | sudoers )
    | ^ /proc/ (?: .* / )? (?: environ | mem ) $
"""
"""Keys, passwords, cookies. A pattern in verbose form; the case of letters does not matter."""

_CONFIDENTIAL: Final = re.compile(CONFIDENTIAL, re.VERBOSE | re.IGNORECASE)


def is_confidential(path: str) -> bool:
    """Whether a path, with slashes, is that of such a file or lies in such a directory."""
    return _CONFIDENTIAL.search(path) is not None
