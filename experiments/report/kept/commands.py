"""Commands that make kept studies, from their options: a study may have been made in parts, and a recorded command is that of one part."""

from collections.abc import Mapping
from typing import Any

from experiments.fair_crossing.options import Options as CrossingOptions
from experiments.sweep import experiment_named
from lrpt.cli.subcommands import options_of
from lrpt.runs.configuration import flatten, to_json

LEFT_OUT = {"workdir", "devices", "huge"}
"""Options that change no result."""


def command_line_of(study: Mapping[str, Any]) -> str:
    """Return the command that makes a kept study, with the options that are not the defaults.

    The recorded command may be that of another study of the same program, which shares a run with this one.
    """
    program = study["environment"]["command"].partition(" --")[0]
    if "study" in study:
        program = f"{program.rpartition(' ')[0]} {study['study']}"
    options = flatten(study["options"])
    preset = f"--preset {options['preset']}" if options.get("preset", "quick") != "quick" else ""
    default = flatten(to_json(_defaults(program, preset)))
    flags = [
        f"--{name.replace('_', '-')} {_words(value)}"
        for name, value in options.items()
        if name not in LEFT_OUT | {"preset"} and name in default and _plain(value) != _plain(default[name])
    ]
    return " ".join(filter(None, [program, preset, *flags]))


def _defaults(program: str, preset: str) -> Any:
    """Return the options that a program has without further flags."""
    module, _, word = program.removeprefix("python -m experiments.").partition(" ")
    if not word:
        return CrossingOptions()
    return options_of(experiment_named(module).subcommands[word], preset.split(), program)


def _plain(value: object) -> object:
    """Return a value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def _words(value: object) -> str:
    return " ".join(map(_words, value)) if isinstance(value, list | tuple) else str(value).removesuffix(".0")
