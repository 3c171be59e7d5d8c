from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.providers import RECOMMENDED, ProviderSetup
from clew.core.models import EMBEDDED, clamp_thinking, introduction
from clew.errors import InvalidConfig, ModelNotFound, ModelUnavailable
from tests.agent.models.conftest import Catalogues
from tests.patience import PATIENCE

OLLAMA = ProviderSetup(
    name="ollama", kind="openai", base_url="http://127.0.0.1:9/v1", models=("qwen3", "llama:8b")
)
ODD = ProviderSetup(name="odd", kind="python", factory="tests.agent.models.factories:open_odd")


def test_without_a_key_the_embedded_model_answers(catalogues: Catalogues) -> None:
    catalogue = catalogues.make()
    assert catalogue.choose_default() == (EMBEDDED, "no key is set")
    info = catalogue.get_model()
    assert (info.name, info.embedded, info.tools, info.problem) == (EMBEDDED, True, False, None)


@pytest.mark.parametrize(
    ("keys", "provider"),
    [
        (("anthropic",), "anthropic"),
        (("openai",), "openai"),
        (("google",), "google"),
        (("google", "openai"), "openai"),
        (("google", "openai", "anthropic"), "anthropic"),
    ],
)
def test_a_key_makes_a_model_of_its_provider_the_default(
    catalogues: Catalogues, keys: tuple[str, ...], provider: str
) -> None:
    info = catalogues.make(keys=keys).get_model()
    assert (info.provider, info.problem) == (provider, None)
    assert info.name == f"{provider}/{RECOMMENDED[provider][0]}"


def test_a_chosen_model_wins_over_keys_and_says_who_chose_it(catalogues: Catalogues) -> None:
    catalogue = catalogues.make(
        OLLAMA, keys=("anthropic",), model="ollama/qwen3", model_source="CLEW_MODEL"
    )
    assert catalogue.get_model().name == "ollama/qwen3"
    assert catalogue.choose_default() == ("ollama/qwen3", "CLEW_MODEL")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("anthropic:claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("claude-opus-4-5", "anthropic/claude-opus-4-5"),
        ("google-gla:gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("openai/a-model-of-next-year", "openai/a-model-of-next-year"),
        ("qwen3", "ollama/qwen3"),
        ("llama:8b", "ollama/llama:8b"),
        ("ollama/llama:8b", "ollama/llama:8b"),
        ("ollama/qwen/qwen3-coder", "ollama/qwen/qwen3-coder"),
        ("ollama//a/path", "ollama//a/path"),
        (" local ", EMBEDDED),
        ("embedded", EMBEDDED),
        ("local/smollm2-135m", EMBEDDED),
    ],
)
def test_a_model_is_found_by_what_people_type(
    catalogues: Catalogues, typed: str, name: str
) -> None:
    assert catalogues.make(OLLAMA).get_model(typed).name == name


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("claude-sonet-5-5", "anthropic/claude-sonnet-5-5"),
        ("antropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("qwen", "ollama/qwen3"),
        ("xyzzy", "the providers are anthropic, openai, google, ollama"),
        ("", "the providers are"),
        ("lokal", "`local` is the embedded model"),
        ("anthropic/", "provider/model"),
    ],
)
def test_an_unknown_model_is_an_error_with_near_names(
    catalogues: Catalogues, typed: str, near: str
) -> None:
    with pytest.raises(ModelNotFound) as caught:
        catalogues.make(OLLAMA).get_model(typed)
    assert near in str(caught.value)


@pytest.mark.parametrize("typed", ["opus", " OPUS ", "Opus"])
def test_a_model_is_found_by_its_other_names(catalogues: Catalogues, typed: str) -> None:
    catalogue = catalogues.make(OLLAMA, aliases={"Opus": "anthropic/claude-opus-5-5"}, model="opus")
    assert catalogue.get_model(typed).name == "anthropic/claude-opus-5-5"
    assert catalogue.get_model().name == "anthropic/claude-opus-5-5"


def test_a_name_of_ones_own_comes_before_all_others(catalogues: Catalogues) -> None:
    catalogue = catalogues.make(OLLAMA, aliases={"local": "qwen3", "qwen3": "ollama/llama:8b"})
    assert catalogue.get_model("local").name == "ollama/qwen3"
    assert catalogue.get_model("ollama/qwen3").name == "ollama/qwen3"


def test_a_name_that_leads_nowhere_says_what_it_stands_for(catalogues: Catalogues) -> None:
    catalogue = catalogues.make(OLLAMA, aliases={"big": "ollama", "fast": "ollama/qwen3"})
    with pytest.raises(ModelNotFound, match=r'no model "ollama", which models.aliases calls "big"'):
        catalogue.get_model("big")
    with pytest.raises(ModelNotFound, match="Did you mean fast"):
        catalogue.get_model("fsat")


def test_an_id_that_two_providers_have_must_be_told_apart(catalogues: Catalogues) -> None:
    other = ProviderSetup(name="box", kind="openai", base_url="http://[::1]:9", models=("qwen3",))
    with pytest.raises(ModelNotFound, match="ollama/qwen3 or box/qwen3"):
        catalogues.make(OLLAMA, other).get_model("qwen3")


def lost() -> str:
    raise InvalidConfig("The variable MY_KEY is not set, and the key should be in it.")


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (ProviderSetup(name="anthropic", kind="anthropic"), "set ANTHROPIC_API_KEY"),
        (ProviderSetup(name="mine", kind="google"), "clew config set providers.mine.api_key"),
        (ProviderSetup(name="mine", kind="openai"), "clew config set providers.mine.base_url"),
        (ProviderSetup(name="mine", kind="openai", base_url="/x"), "is a path, not an address"),
        (ProviderSetup(name="mine", kind="python"), "providers.mine.factory"),
        (ProviderSetup(name="openai", kind="openai", api_key=lost), "MY_KEY is not set"),
    ],
)
async def test_what_is_missing_is_said_and_refuses_to_open(
    catalogues: Catalogues, provider: ProviderSetup, says: str
) -> None:
    catalogue = catalogues.make(provider)
    info = catalogue.get_model(f"{provider.name}/x")
    assert says in (info.problem or "")
    with pytest.raises(ModelUnavailable, match="can't be used"):
        await catalogue.open_model(info)


def test_the_list_has_every_provider_and_the_chosen_model(catalogues: Catalogues) -> None:
    names = [info.name for info in catalogues.make(OLLAMA, model="openai/odd").list_models()]
    assert names[0] == EMBEDDED
    assert {"anthropic/claude-sonnet-5-5", "ollama/qwen3", "ollama/llama:8b"} <= set(names)
    assert names[-1] == "openai/odd"
    assert len(names) == len(set(names))


def test_recommended_models_are_known_to_the_library_and_have_a_context_window(
    catalogues: Catalogues,
) -> None:
    catalogue = catalogues.make()
    for provider, ids in RECOMMENDED.items():
        for model_id in ids:
            info = catalogue.get_model(f"{provider}/{model_id}")
            assert catalogue.is_known(info), info.name
            assert (info.context_window or 0) > 100_000, info.name
            assert "high" in info.thinking, info.name
    assert not catalogue.is_known(catalogue.get_model("anthropic/claude-sonet-5-5"))


def test_context_windows_can_be_overridden_by_provider_and_by_session(
    catalogues: Catalogues,
) -> None:
    small = ProviderSetup(
        name="ollama", kind="openai", base_url="http://[::1]:9/v1", context_window=32_768
    )
    assert catalogues.make(small).get_model("ollama/x").context_window == 32_768
    both = catalogues.make(small, context_window=9_000)
    assert both.get_model("ollama/x").context_window == 9_000
    assert both.get_model(EMBEDDED).context_window == 1024


def test_what_is_known_is_remembered_and_broken_memory_is_no_matter(
    catalogues: Catalogues,
) -> None:
    first = catalogues.make().get_model("claude-opus-5-5")
    file = catalogues.path / "models.json"
    assert b"claude-opus-5-5" in file.read_bytes()
    assert catalogues.make().get_model("claude-opus-5-5") == first
    file.write_bytes(b"not json")
    assert catalogues.make().get_model("claude-opus-5-5") == first


LIGHT = """
import sys
from pathlib import Path
from clew.agent.models.catalogue import Catalogue
from clew.agent.models.providers import ModelsSetup, ProviderSetup
place = Path(sys.argv[1])
providers = (ProviderSetup(name="anthropic", kind="anthropic", api_key=lambda: "x"),)
catalogue = Catalogue(ModelsSetup(providers=providers, weights_dirs=(place,), cache_dir=place))
for name in (None, "local", "anthropic/claude-opus-5-5"):
    catalogue.get_settings(catalogue.get_model(name), thinking="high")
heavy = {"pydantic_ai", "pydantic", "genai_prices", "anthropic", "openai", "xllamacpp", "httpx2"}
print(sorted(heavy & set(sys.modules)))
"""


def test_naming_a_model_that_was_used_before_imports_no_library(
    catalogues: Catalogues,
) -> None:
    warm = catalogues.make(keys=("anthropic",))
    warm.get_model()
    warm.get_model("anthropic/claude-opus-5-5")
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, str(catalogues.path)],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "given", "settings"),
    [
        ("anthropic/claude-sonnet-5-5", {}, {"cache": True}),
        (
            "anthropic/claude-sonnet-5-5",
            {"thinking": "high", "service_tier": "flex"},
            {"cache": True, "thinking": "high"},
        ),
        ("anthropic/claude-sonnet-5-5", {"thinking": "off"}, {"cache": True, "thinking": False}),
        ("anthropic/claude-opus-5-5", {"thinking": "off"}, {"cache": True, "thinking": "low"}),
        (
            "openai/gpt-6.1-sol",
            {"thinking": "low", "service_tier": "flex"},
            {"cache": True, "openai_store": False, "thinking": "low", "service_tier": "flex"},
        ),
        ("openai/gpt-4o", {"thinking": "high"}, {"cache": True, "openai_store": False}),
        ("ollama/qwen3", {"thinking": "high", "service_tier": "flex"}, {}),
        (EMBEDDED, {"thinking": "high", "service_tier": "flex"}, {}),
        ("odd/x", {"thinking": "medium"}, {"thinking": "medium"}),
    ],
)
def test_wishes_become_settings_that_the_model_can_take(
    catalogues: Catalogues, name: str, given: dict[str, str], settings: dict[str, Any]
) -> None:
    catalogue = catalogues.make(OLLAMA, ODD)
    assert catalogue.get_settings(catalogue.get_model(name), **given) == settings


def test_configured_defaults_hold_until_a_session_says_otherwise(catalogues: Catalogues) -> None:
    catalogue = catalogues.make(thinking="high", service_tier="priority")
    info = catalogue.get_model("openai/gpt-6.1-sol")
    assert catalogue.get_settings(info)["thinking"] == "high"
    assert catalogue.get_settings(info)["service_tier"] == "priority"
    other = catalogue.get_settings(info, thinking="low", service_tier="none")
    assert other["thinking"] == "low"
    assert "service_tier" not in other


@pytest.mark.parametrize(
    ("wanted", "levels", "level"),
    [
        ("off", ("low", "medium", "high"), "low"),
        ("high", ("off", "low"), "low"),
        ("medium", ("off", "low", "medium", "high"), "medium"),
        ("low", ("off", "high"), "off"),
        ("high", ("off",), "off"),
    ],
)
def test_a_thinking_level_is_clamped_to_the_nearest_that_is_not_above(
    wanted: str, levels: Any, level: str
) -> None:
    assert clamp_thinking(wanted, levels) == level


async def test_a_factory_makes_the_model_and_it_is_made_once(catalogues: Catalogues) -> None:
    catalogue = catalogues.make(ODD)
    info = catalogue.get_model("odd/some/thing")
    model = await catalogue.open_model(info)
    assert model.model_name == "some/thing"
    assert await catalogue.open_model(info) is model


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("tests.agent.models.factories:open_nothing", "not a pydantic-ai Model"),
        ("tests.agent.models.factories:missing", "can't be imported"),
        ("no_such_module:x", "can't be imported"),
    ],
)
async def test_a_factory_that_does_not_work_says_which_and_why(
    catalogues: Catalogues, factory: str, says: str
) -> None:
    catalogue = catalogues.make(ProviderSetup(name="odd", kind="python", factory=factory))
    with pytest.raises(ModelUnavailable, match=says) as caught:
        await catalogue.open_model(catalogue.get_model("odd/x"))
    assert "providers.odd.factory" in str(caught.value)


def test_only_the_embedded_model_introduces_itself(catalogues: Catalogues) -> None:
    catalogue = catalogues.make()
    assert introduction(catalogue.get_model("openai/gpt-6.1-sol")) is None
    line = introduction(catalogue.get_model("local")) or ""
    assert "\n" not in line
    for part in ("135M", "weak", "/setup", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama"):
        assert part in line


async def test_keys_and_addresses_are_given_and_not_picked_up(
    catalogues: Catalogues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever other programs' variables say, only the setup counts."""
    for name in ("ANTHROPIC", "OPENAI", "GOOGLE"):
        monkeypatch.setenv(f"{name}_API_KEY", "from-the-environment")
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9/elsewhere")
    catalogue = catalogues.make(OLLAMA, keys=("anthropic", "openai", "google"))
    for name in ("anthropic/claude-opus-5-5", "openai/gpt-6.1-sol", "ollama/qwen3"):
        model: Any = await catalogue.open_model(catalogue.get_model(name))
        assert model.client.api_key == ("no-key" if "ollama" in name else "secret")
        assert model.client.max_retries == 0
        assert "elsewhere" not in str(model.client.base_url)
    google: Any = await catalogue.open_model(catalogue.get_model("google/gemini-3.8-flash"))
    assert google.client._api_client.api_key == "secret"
    await catalogue.close()


def test_no_weights_are_found_in_an_empty_cache(catalogues: Catalogues) -> None:
    assert catalogues.make().find_weights() is None
    assert not Path(catalogues.path / "models").exists()
