from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.personalities import FilePersonalities
from clew.errors import InvalidConfig, PersonalityNotFound


def put(directory: Path, name: str, soul: str | None = None, config: str | None = None) -> None:
    (directory / name).mkdir(parents=True)
    if soul is not None:
        (directory / name / "SOUL.md").write_text(soul)
    if config is not None:
        (directory / name / "config.toml").write_text(config)


def test_five_come_with_clew_and_default_is_first() -> None:
    found = FilePersonalities().list_personalities()
    assert [each.id for each in found] == ["default", "coach", "engineer", "researcher", "reviewer"]
    for each in found:
        assert each.builtin
        assert each.description
        assert 200 < len(each.soul) < 2_000


def test_no_id_is_the_default() -> None:
    assert FilePersonalities().get_personality() == FilePersonalities().get_personality("default")


def test_a_directory_is_a_personality(tmp_path: Path) -> None:
    config = """
        name = "Poet"
        description = "Rhymes"
        model = "anthropic/claude"
        tools = ["memory_read"]
        memory_scope = "per-personality"
        thinking = "low"
    """
    put(tmp_path, "poet", "You rhyme.\n", config)
    poet = FilePersonalities(tmp_path).get_personality("poet")
    assert (poet.id, poet.name, poet.description) == ("poet", "Poet", "Rhymes")
    assert (poet.soul, poet.model, poet.thinking) == ("You rhyme.", "anthropic/claude", "low")
    assert (poet.tools, poet.memory_scope, poet.builtin) == (
        ("memory_read",),
        "per-personality",
        False,
    )
    assert "poet" in [each.id for each in FilePersonalities(tmp_path).list_personalities()]


def test_everything_may_be_left_out(tmp_path: Path) -> None:
    put(tmp_path, "my-own")
    (tmp_path / "my-own" / "config.toml").touch()
    personality = FilePersonalities(tmp_path).get_personality("my-own")
    assert (personality.name, personality.soul, personality.tools) == ("My own", "", None)


def test_a_directory_without_either_file_is_none(tmp_path: Path) -> None:
    put(tmp_path, "my-own")
    put(tmp_path, "coach")  # its memory may lie there
    (tmp_path / "coach" / "MEMORY.md").write_text("- likes tea")
    personalities = FilePersonalities(tmp_path)
    assert [each.id for each in personalities.list_personalities() if not each.builtin] == []
    assert personalities.get_personality("coach").soul
    with pytest.raises(PersonalityNotFound):
        personalities.get_personality("my-own")


def test_only_one_file_of_a_built_in_may_be_changed(tmp_path: Path) -> None:
    put(tmp_path, "coach")
    (tmp_path / "coach" / "config.toml").write_text('memory_scope = "per-personality"')
    own, shipped = (
        FilePersonalities(tmp_path).get_personality("coach"),
        FilePersonalities().get_personality("coach"),
    )
    assert own.memory_scope == "per-personality"
    assert own.soul == shipped.soul


def test_an_own_one_takes_the_place_of_a_built_in_and_is_read_anew(tmp_path: Path) -> None:
    personalities = FilePersonalities(tmp_path)
    assert personalities.get_personality("coach").builtin
    put(tmp_path, "coach", "Shout.")
    assert personalities.get_personality("coach").soul == "Shout."
    (tmp_path / "coach" / "SOUL.md").write_text("Whisper.")
    assert personalities.get_personality("coach").soul == "Whisper."
    assert len(personalities.list_personalities()) == 5


def test_an_unknown_one_is_told_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(PersonalityNotFound, match="default, engineer, researcher, reviewer"):
        FilePersonalities(tmp_path / "not there").get_personality("pirate")


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ('colour = "red"', "colour"),
        ("tools = 3", "tools"),
        ('memory_scope = "mine"', "memory_scope"),
        ('thinking = "hard"', "thinking"),
        ("name = ", "not valid TOML"),
    ],
)
def test_a_wrong_config_names_the_file(tmp_path: Path, config: str, what: str) -> None:
    put(tmp_path, "odd", config=config)
    with pytest.raises(InvalidConfig) as caught:
        FilePersonalities(tmp_path).get_personality("odd")
    assert str(tmp_path / "odd" / "config.toml") in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize("wanted", ["..", "../odd", "/etc", "Odd", "a/b", ".", "odd\0", "-x"])
def test_an_id_is_never_a_path(tmp_path: Path, wanted: str) -> None:
    put(tmp_path, "odd", "secret")
    put(tmp_path / "own", "x")
    with pytest.raises(PersonalityNotFound):
        FilePersonalities(tmp_path / "own").get_personality(wanted)


@given(wanted=st.text(min_size=1))
def test_any_text_is_an_id_or_not_found(wanted: str) -> None:
    try:
        assert FilePersonalities().get_personality(wanted).id == wanted
    except PersonalityNotFound:
        return
