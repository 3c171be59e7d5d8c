"""`clew model`: list the models, choose the one that answers, and test it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from clew import config as configuration
from clew.cli.app import App, local_command
from clew.cli.tables import Column, table
from clew.core.names import format_bytes, format_count
from clew.core.text import strip_controls
from clew.errors import ModelNotFound, TurnFailed

if TYPE_CHECKING:
    from clew.core.models import ModelInfo
    from clew.wiring import Catalogue

QUESTION = "Say hello in one short sentence."


@click.group("model")
def model_group() -> None:
    """Choose the model that answers.

    It is the one that CLEW_MODEL or `clew model set` names; else a model of the provider whose key
    is set (ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_API_KEY); else the embedded one, a very small
    model that runs on this machine. Names are provider/model.

    \b
    Any server with an API like OpenAI's is a provider too, for instance Ollama:
      clew config set providers.ollama.base_url http://localhost:11434/v1
      clew model set ollama/qwen3
    """


@model_group.command("list")
@local_command
def model_list(app: App) -> None:
    """List models, and what is missing for those that can't be used.

    The list has a few models of each provider and those of the config file; every other model of a
    provider can be named too.

    \b
    Examples:
      clew model list
      clew model list --json
    """
    catalogue = _catalogue(app)
    models = catalogue.list_models()
    default, source = catalogue.choose_default()
    try:
        chosen = catalogue.get_model(default).name
    except ModelNotFound as error:
        app.note(f"{error} ({source})")
        chosen = None
    weights = catalogue.find_weights()
    if app.json:
        app.emit({
            "default": chosen,
            "source": source,
            "weights": None if weights is None else str(weights),
            "models": models,
        })  # fmt: skip
        return
    columns = (
        Column(""),
        Column("MODEL", "bold"),
        Column("CONTEXT", align="right", optional=2),
        Column("THINKING", "dim", optional=1, least=0),
        Column("STATE", least=20),
    )
    rows = [
        (
            "*" if info.name == chosen else "",
            info.name,
            "" if info.context_window is None else format_count(info.context_window),
            " ".join(info.thinking) if len(info.thinking) > 1 else "",
            _state(catalogue, info),
        )
        for info in models
    ]
    app.say("\n".join(table(app, columns, rows)))
    if chosen is not None:
        app.say(f"\n* answers now ({source}).")


def _state(catalogue: Catalogue, info: ModelInfo) -> str:
    if info.problem is not None:
        return info.problem.partition(". ")[0]
    if info.embedded and catalogue.find_weights() is None:
        return "ready when its weights are here: `clew model pull`"
    return "ready"


@model_group.command("set")
@click.argument("name")
@local_command
def model_set(app: App, name: str) -> None:
    """Choose the model that answers: writes `model` into the config file.

    Sessions that chose a model themselves (/model) keep it.

    \b
    Examples:
      clew model set anthropic/claude-sonnet-5-5
      clew model set ollama/qwen3
      clew model set local
    """
    catalogue = _catalogue(app)
    info = catalogue.get_model(name)
    file = app.places.file
    configuration.set_value(file, "model", info.name)
    told = "answers now" if info.problem is None else "is chosen"
    app.answer({"model": info, "file": str(file)}, f"{info.name} {told}, in {file}.")
    if app.config.sources["model"] in configuration.VARIABLES and app.config.model != info.name:
        app.note(f"But {app.config.sources['model']} still says {app.config.model}, and wins.")
    if info.problem is not None:
        app.note(f"It can't be used yet. {info.problem}")
    if not catalogue.is_known(info):
        near = [each for each in catalogue.find_similar(info.name) if each != info.name]
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        app.note(f"clew does not know this model.{meant} `clew model test` tries it.")


@model_group.command("pull")
@click.argument("which", type=click.Choice(["embeddings"]), required=False)
@local_command
def model_pull(app: App, which: str | None) -> None:
    """Fetch the embedded model's weights, once. Otherwise the first question fetches them.

    `clew model pull embeddings` fetches those of the model that searches the memory by meaning
    (`memory.mode = "vector"`). Nothing else ever fetches these.

    \b
    Examples:
      clew model pull
      clew model pull embeddings
    """
    if which == "embeddings":
        _pull_embeddings(app)
        return
    catalogue = _catalogue(app)
    before = catalogue.find_weights()
    path = before or pull_weights(app, catalogue)
    size = path.stat().st_size
    here = "are here already" if before is not None else "are here now"
    app.answer(
        {"path": str(path), "bytes": size, "fetched": before is None},
        f"The embedded model's weights {here}: {path} ({format_bytes(size)}).",
    )


def _pull_embeddings(app: App) -> None:
    from clew.wiring.embeddings import count_embeddings, fetch_embeddings, find_embeddings

    before = find_embeddings(app.config)
    path = before
    if path is None:
        megabyte = 1_000_000
        total = count_embeddings() // megabyte
        with app.progress("Fetching the embedding model (MB)", total=total) as bar:
            path = fetch_embeddings(app.config, lambda done, _total: bar.reach(done // megabyte))
    size = path.stat().st_size
    here = "are here already" if before is not None else "are here now"
    app.answer(
        {"path": str(path), "bytes": size, "fetched": before is None},
        f"The embedding model's weights {here}: {path} ({format_bytes(size)}).",
    )


def pull_weights(app: App, catalogue: Catalogue, stop: threading.Event | None = None) -> Path:
    """Fetch the weights with a progress bar, until `stop` is set."""
    from clew.wiring import count_download

    megabyte = 1_000_000
    with app.progress(
        "Fetching the embedded model (MB)", total=count_download() // megabyte
    ) as bar:

        def advance(done: int, _total: int | None) -> None:
            if stop is not None and stop.is_set():
                raise click.Abort
            bar.reach(done // megabyte)

        return catalogue.fetch_weights(advance)


@model_group.command("test")
@click.argument("name", required=False)
@local_command
def model_test(app: App, name: str | None) -> None:
    """Ask a model one short question, for real. Costs a few tokens.

    \b
    Examples:
      clew model test
      clew model test openai/gpt-6.1-sol
    """
    from clew.wiring import try_model

    catalogue = _catalogue(app)
    info = catalogue.get_model(name)
    if info.embedded and info.problem is None and catalogue.find_weights() is None:
        pull_weights(app, catalogue)
    try:
        with app.progress(f"Asking {info.name}"):
            found = app.wait(try_model(catalogue, info, QUESTION))
    except TurnFailed as error:
        # The message is written for a chat, where /retry asks again.
        raise type(error)(str(error).replace("`/retry`", "`clew model test`")) from error
    text = strip_controls(found.answer, keep_newlines=False)
    app.answer(
        {"model": info.name, **msgspec.to_builtins(found)},
        f"{info.name} answered after {found.first_token_seconds:.1f} s "
        f"({found.input_tokens} tokens in, {found.output_tokens} out): {text}",
    )


def _catalogue(app: App) -> Catalogue:
    from clew.wiring import open_catalogue

    return open_catalogue(app.config)
