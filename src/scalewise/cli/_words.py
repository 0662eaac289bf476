"""The words of the command line: examples, refusals, and what the texts of options mean."""

import re
import shlex
from collections.abc import Collection
from dataclasses import fields
from typing import Any, get_args

# Arguments that are options of another name, in commands that have no option of theirs.
_CALLED = {"source": "data", "x": "data", "networks": "ensemble"}
# What a program may do and a command line cannot, and what to say instead.
PHRASES = {
    r", or leave `samples` out to take all": "",
    r" or None(?=;)": "",
    r", or an array of shape \(samples, features\)": "",
    r", for example with x\.reshape\(len\(x\), -1\)": "",
    r" For your own, pass a JAX-traceable callable\.": "",
    r"`load_(?:inputs|task)\('(\w+)'\)`": r"--data \1",
    r"critical hyperparameters: net\.at_criticality\(\)": "the critical ones: leave --C-b and --C-W out",
    r"Set C_b and C_W yourself": "Give --C-b and --C-W",
    r"set C_b > 0 in the first layer": "give a --C-b above 0",
    r"Pass (\w+)=\[\.\.\.\] with": r"Give --\1,",
    r"\[([\d., ]+)\]": lambda found: found[1].replace(", ", ","),
}
# Answers to what a plan asks.
_ANSWERS = {
    r"roles=\{([^{}]*)\}": lambda found: " ".join(
        f"--role {name}={role}" for name, role in re.findall(r'"([^"]+)": "([^"]+)"', found[1])
    ),
    r"multiplied=\[\"([^\]]+)\"\]": lambda found: f"--multiplied {found[1]}",
}
# By command, as its help shows them.
EXAMPLES = {
    "criticality": "scalewise criticality gelu",
    "predict": "scalewise predict --activation gelu --depth 8 --width 256 --samples 4",
    "measure": "scalewise measure --activation relu --depth 4 --width 64 --networks 500 --compare",
    "report": "scalewise report --activation tanh --depth 16 --width 128 --out report",
    "train": "scalewise train --data digits:3,8 --width 64 --ensemble 200 --out training",
    "signals": "scalewise signals model:build --width 64",
    "audit": "scalewise audit model:build --widths 64,128,256",
    "plan": "scalewise plan model:build --base width=64 --target width=1024",
    "verify": "scalewise verify model:build --base width=64 --target width=1024 --widths 64,128,256",
    "explore": "scalewise explore --activations tanh,gelu,relu --out explorer.html",
}
_SHOWN = ("criticality", "report", "train")  # in the help of the whole


def examples(*commands: str) -> str:
    """The examples of some commands as the end of a help text, each on a line of its own."""
    lines = [EXAMPLES[name] for name in commands or _SHOWN]
    return "\n".join(["\b", f"Example{'s' * (len(lines) > 1)}:", *(f"  {one}" for one in lines)])


class Refusal(ValueError):
    """Bad input that the command line itself finds."""


def as_options(sentence: str, names: Collection[str]) -> str:
    """A sentence of the library about its arguments, in the words of somebody who gave options.

    Args:
        sentence: Names arguments in backticks, such as ```train``` or ```MLP.width```.
        names: Parameters of the command; others keep their backticks.
    """

    def option(found: re.Match[str]) -> str:
        name = found[1] if found[1].lower() in names else _CALLED.get(found[1], found[1])
        return f"--{name.replace('_', '-')}" if name.lower() in names else found[0]

    for phrase, instead in (_ANSWERS | PHRASES).items():
        sentence = re.sub(phrase, instead, sentence)
    if "observables" not in names:  # which nobody has asked for
        sentence = re.sub(r" Leave [^.]*`observables`\.", "", sentence)
    return re.sub(r"`(?:\w+\.)?(\w+)`", option, sentence)


def command_line(command: str, *groups: Any) -> str:
    """The command line that makes this run, with every choice written out."""
    words = ["scalewise", command]
    for group in groups:
        for field in fields(group):
            own = get_args(field.type)[1].default  # the name, where it is not made of the field's
            name = own if isinstance(own, str) else f"--{field.name.replace('_', '-')}"
            value = getattr(group, field.name)
            words += [] if value is None else [name, str(value)]
    return shlex.join(words)


def numbers(option: str, text: str, kind: type[int] | type[float] = float) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        one = "whole number" if kind is int else "number"
        raise Refusal(
            f"{option} takes a {one}, or {one}s with commas between them; got {text!r}."
        ) from None


def one_or_many(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values
