from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.models import EMBEDDED
from tests.cli.conftest import Home
from tests.weights import have_weights

KEYS = (
    *(f"{name}_API_KEY" for name in ("ANTHROPIC", "OPENAI", "GOOGLE", "GEMINI")),
    *(f"{name}_BASE_URL" for name in ("ANTHROPIC", "OPENAI")),
)


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, "CLEW_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def weights() -> Path:
    return have_weights()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who has no weights, and no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "")


def test_list_marks_what_answers_and_says_what_is_missing(home: Home) -> None:
    lines = home.clew("model", "list").stdout.splitlines()
    assert lines[0].split() == ["MODEL", "CONTEXT", "THINKING", "STATE"]
    assert lines[1].startswith(f"*  {EMBEDDED} ")
    assert any("claude-sonnet" in line and "set ANTHROPIC_API_KEY" in line for line in lines)
    assert lines[-1] == "* answers now (no key is set)."


def test_list_says_that_the_weights_are_not_here(home: Home, elsewhere: None) -> None:
    assert "when its weights are here: `clew model pull`" in home.clew("model", "list").stdout
    assert home.json("model", "list")["weights"] is None


def test_a_key_changes_what_answers_and_is_not_shown(home: Home) -> None:
    result = home.clew("model", "list", "--json", env={"OPENAI_API_KEY": "sk-very-secret"})
    assert '"default":"openai/' in result.stdout
    assert '"source":"OPENAI_API_KEY"' in result.stdout
    assert "very-secret" not in result.output


def test_list_works_although_the_chosen_model_is_none(home: Home) -> None:
    result = home.clew("model", "list", env={"CLEW_MODEL": "claude-sonet"})
    assert result.exit_code == 0
    assert EMBEDDED in result.stdout
    assert 'There is no model "claude-sonet".' in result.stderr
    assert "(CLEW_MODEL)" in result.stderr
    assert "answers now" not in result.stdout


def test_set_writes_the_whole_name_into_the_file(home: Home) -> None:
    result = home.clew("model", "set", "claude-opus-5-5")
    assert result.stdout == (f"anthropic/claude-opus-5-5 is chosen, in {home.path}/config.toml.\n")
    assert "It can't be used yet." in result.stderr
    assert home.json("config", "show")["model"]["value"] == "anthropic/claude-opus-5-5"
    assert home.json("model", "list")["source"] == f"{home.path}/config.toml"


def test_set_accepts_a_model_that_nobody_knows_and_says_so(home: Home) -> None:
    env = {"ANTHROPIC_API_KEY": "x"}
    result = home.clew("model", "set", "anthropic/claude-sonet-5-5", env=env)
    assert result.exit_code == 0
    assert "Did you mean anthropic/claude-sonnet-5-5" in result.stderr


def test_set_says_when_the_environment_wins(home: Home) -> None:
    result = home.clew("model", "set", "local", env={"CLEW_MODEL": "openai/gpt-4o"})
    assert "But CLEW_MODEL still says openai/gpt-4o, and wins." in result.stderr


def test_set_refuses_what_is_no_model_and_writes_nothing(home: Home) -> None:
    result = home.clew("model", "set", "claude-sonet")
    assert result.exit_code == 1
    assert "Did you mean anthropic/claude-sonnet" in result.stderr
    assert not (home.path / "config.toml").exists()


def test_pull_is_done_once(home: Home, weights: Path) -> None:
    result = home.clew("model", "pull")
    assert result.exit_code == 0
    assert result.stdout == f"The embedded model's weights are here already: {weights} (93.8 MB).\n"
    assert home.json("model", "pull")["fetched"] is False


def test_pull_without_a_network_says_what_to_do(home: Home, elsewhere: None) -> None:
    result = home.clew("model", "pull")
    assert result.exit_code == 1
    assert "everything except answering works" in result.stderr
    assert "bug" not in result.stderr
    assert home.clew("list").exit_code == 0


def test_test_asks_the_model_for_real(home: Home, weights: Path) -> None:
    result = home.clew("model", "test", "local")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{EMBEDDED} answered after ")
    found = home.json("model", "test")
    assert found["model"] == EMBEDDED
    assert found["answer"]
    assert found["output_tokens"] > 0


def test_test_says_in_words_what_does_not_work(home: Home) -> None:
    missing = home.clew("model", "test", "anthropic/claude-opus-5-5")
    assert (missing.exit_code, "set ANTHROPIC_API_KEY" in missing.stderr) == (1, True)
    home.clew("config", "set", "providers.box.base_url", "http://127.0.0.1:9/v1")
    down = home.clew("model", "test", "box/any")
    assert down.exit_code == 1
    assert "box can't be reached" in down.stderr
    assert "`clew model test` tries again." in down.stderr


def test_test_goes_through_a_factory(home: Home) -> None:
    factory = "clew.testing.scripted:open_model"
    script = home.path.parent / "script.json"
    script.write_text('["Hello from the script."]', encoding="utf-8")
    home.clew("config", "set", "providers.script.kind", "python")
    home.clew("config", "set", "providers.script.factory", factory)
    home.clew("config", "set", "providers.script.base_url", str(script))
    result = home.clew("model", "test", "script/any")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("Hello from the script.\n")


def test_doctor_says_which_model_answers_and_whether_it_can(home: Home, weights: Path) -> None:
    findings = {each["name"]: each for each in home.json("doctor")["findings"]}
    assert findings["model"] == {
        "name": "model",
        "level": "ok",
        "what": f"{EMBEDDED} (no key is set)",
    }
    assert findings["weights"]["level"] == "ok"


def test_doctor_has_a_problem_with_a_chosen_model_that_can_not_be_used(home: Home) -> None:
    home.clew("model", "set", "anthropic/claude-opus-5-5")
    result = home.clew("doctor")
    assert result.exit_code == 1
    assert "✗ model " in result.stdout
    assert "set ANTHROPIC_API_KEY" in result.stdout


def test_doctor_warns_of_private_files_that_others_may_read(home: Home) -> None:
    home.clew("config", "set", "providers.box.api_key", "sk-secret")
    (home.path / "config.toml").chmod(0o644)
    (home.path / "USER.md").write_text("Ada", encoding="utf-8")
    (home.path / "USER.md").chmod(0o644)
    result = home.clew("doctor")
    assert "! config file " in result.stdout
    assert "! USER.md " in result.stdout
    assert "sk-secret" not in result.stdout


def test_what_a_list_remembers_lies_in_a_home_for_its_owner_alone(home: Home) -> None:
    assert home.clew("model", "list").exit_code == 0
    assert home.path.stat().st_mode & 0o077 == 0


def test_a_model_is_set_by_a_name_of_ones_own(home: Home) -> None:
    home.script("hello", more='[models.aliases]\nFast = "script/y"\n')
    assert home.json("model", "set", "fast")["model"]["name"] == "script/y"
