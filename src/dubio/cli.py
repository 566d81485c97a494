"""The command line: ``dubio evaluate | data``, and what other packages add.

A package adds a command by an entry point of the group ``dubio.commands``: a function that takes
the words behind the command and returns an exit code. The first line of its docstring is its help.
`dubio-studies` adds ``list``, ``run``, ``report``, ``ledger`` and ``demo``.

Exit codes: 0 all is well, 1 something failed, 2 the command was wrong, 130 interrupted (Ctrl-C),
143 terminated (SIGTERM).
"""

import argparse
import errno
import io
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any

import dubio
from dubio.data import DataError

EXTRAS = {
    "filelock": "studies",
    "joblib": "studies",
    "matplotlib": "evaluate",
    "pooch": "data",
    "sklearn": "evaluate",
    "threadpoolctl": "studies",
    "torchmetrics": "evaluate",
}
"""What commands need that the core does not, and the extra that brings it."""
STUDIES = {
    "list": "List every table and figure of the papers.",
    "run": "Run a study, or go on with it.",
    "report": "Write pages about all runs.",
    "ledger": "Print every number of the papers' tables next to ours.",
    "demo": "Train two small networks and write a page about what they do not know.",
}
"""What `dubio-studies` adds, for those who do not have it."""

Command = Callable[[Sequence[str]], int]


class Failure(Exception):  # noqa: N818 - it is the command that failed
    """Ends the command with a message and exit code 1."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end; it ends as after Ctrl-C."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises `Terminated` inside; other threads than the first cannot ask for that."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # encodings that lack a sign show it as "?"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        known = bool(words) and words[0] in command_names()
        name = words[0] if known else root_parser().parse_args(words[:1]).command
        with terminable():
            return load_command(name)(words[1:])
    except SystemExit as exit_:  # argparse has said why
        return exit_.code if isinstance(exit_.code, int) else 2
    except (Failure, DataError) as failure:
        print(f"dubio: {failure}", file=sys.stderr)
        return 1
    except ImportError as error:
        if error.name in EXTRAS:
            extra = EXTRAS[error.name]
            clone = ". ./studies" if extra == "studies" else f"'.[{extra}]'"
            print(
                f"dubio: this needs {error.name}; pip install 'dubio[{extra}]', or from a clone: "
                f"pip install {clone}",
                file=sys.stderr,
            )
        elif str(error).startswith("dubio."):  # the library has said which extra
            print(f"dubio: {error}", file=sys.stderr)
        else:
            raise
        return 1
    except KeyboardInterrupt as interrupt:
        print("\ndubio: interrupted; what is finished is kept.", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # as in `dubio list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # as in `dubio list > /dev/full`
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(
            "dubio: standard output: no space left; free some, or write elsewhere", file=sys.stderr
        )
        return 1


def load_command(name: str) -> Command:
    """Return the function behind a command: our own, or of a package that adds it."""
    if name in COMMANDS:
        return COMMANDS[name]
    for point in entry_points(group="dubio.commands", name=name):
        command: Command = point.load()
        return command

    def missing(words: Sequence[str]) -> int:
        raise Failure(f"'dubio {name}' comes with the studies; pip install 'dubio[studies]'")

    missing.__doc__ = f"{STUDIES[name]} [pip install 'dubio[studies]']"
    return missing


def command_names() -> list[str]:
    """Of all commands, those of other packages last."""
    added = [point.name for point in entry_points(group="dubio.commands")]
    return list(dict.fromkeys([*COMMANDS, *STUDIES, *added]))


def root_parser() -> argparse.ArgumentParser:
    """Knows the names of the commands; each of them parses the rest by itself."""
    parser = argparse.ArgumentParser(
        prog="dubio",
        description="Networks that know what they do not know.",
        epilog="'dubio COMMAND --help' says more.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dubio {dubio.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in command_names():
        commands.add_parser(name, help=summary_of(name), add_help=False, prefix_chars="\0")
    return parser


def summary_of(name: str) -> str:
    """Return the first line of a command's docstring."""
    try:
        return (load_command(name).__doc__ or "").partition("\n")[0]
    except Exception as error:  # another package's fault is not to cost the other commands
        return f"cannot be loaded ({type(error).__name__}: {error})".replace("%", "%%")


def subparser(command: Command, name: str, **options: Any) -> argparse.ArgumentParser:
    """Return a parser for one command."""
    description = (command.__doc__ or "").partition("\n")[0]
    return argparse.ArgumentParser(
        prog=f"dubio {name}", description=description, allow_abbrev=False, **options
    )


def evaluate_network(words: Sequence[str]) -> int:
    """Evaluate a saved network on data: all metrics that fit, drawings and a page."""
    safety = "The model's code is run. Nothing in the state file and the data files is."
    parser = subparser(evaluate_network, "evaluate", epilog=safety)
    add = parser.add_argument
    model = "builds the network: package.module:function or file.py:function; it is run"
    add("--model", required=True, type=readable, metavar="PATH:FUNCTION", help=model)
    saved = "its state_dict, of torch.save or safetensors; nothing in it is run"
    add("--state", required=True, type=readable_path, metavar="FILE", help=saved)
    names = "digits, mnist, fashion-mnist, notmnist, cifar10"
    files = "or a file with x and y: .npz, .pt, .safetensors"
    add("--data", required=True, type=readable, metavar="DATA", help=f"{names}, {files}")
    meaning = "what outputs mean: categorical, bernoulli, gaussian=PRECISION, heteroscedastic"
    add("--likelihood", required=True, metavar="NAME", help=meaning)
    add("--draws", type=positive, default=100, metavar="N", help="passes [100]")
    add("--ood", type=readable, metavar="DATA", help="foreign inputs, which should raise doubts")
    validation = "validation data: calibrated columns are added"
    add("--calibrate-with", type=readable, metavar="DATA", help=validation)
    add("--batch-size", type=positive, default=256, metavar="N", help="rows at a time [256]")
    add("--seed", type=natural, default=0, metavar="N", help="of all noise [0]")
    output, pages = Path("evaluation"), "for index.html, metrics.json and drawings [evaluation]"
    add("--output", type=readable_path, default=output, metavar="DIR", help=pages)
    add("--json", action="store_true", help="print metrics.json")
    options = parser.parse_args(words)

    from dubio import evaluation
    from dubio.evaluation.page import prepare, text_of, write_pages

    if options.calibrate_with == options.data:
        parser.error(
            f"--calibrate-with: expected other rows than those of --data, got {options.data} for "
            "both; a prediction calibrated on its own test rows looks better than it is"
        )
    try:
        likelihood = evaluation.parse_likelihood(options.likelihood)
    except ValueError as error:
        parser.error(f"--likelihood: {error}")
    try:
        state = evaluation.read_state(options.state)  # before any code that could vouch for it
        prepare(options.output)
        network = evaluation.build_network(options.model)
        evaluation.load_state(network, state)
        asked = evaluation.read_data(options.data)
        others = {"foreign": options.ood, "validation": options.calibrate_with}
        found = evaluation.evaluate(
            network, asked, likelihood,
            draws=options.draws, batch_size=options.batch_size, seed=options.seed,
            **{use: evaluation.read_data(name) for use, name in others.items() if name},
        )  # fmt: skip
        command = shlex.join(["dubio", "evaluate", *words])
        given = {name: value for name, value in vars(options).items() if name != "json"}
        settings = {name: str(value) for name, value in given.items() if value is not None}
        settings["data_source"] = asked.source
        page = write_pages(found, settings, command, options.output)
    except evaluation.EvaluationError as error:
        raise Failure(error) from error
    if options.json:
        print((options.output / "metrics.json").read_text(encoding="utf-8"), end="")
    else:
        print(f"{text_of(found)}\n\nopen {page.resolve().as_uri()}")
    return 0


def show_data(words: Sequence[str]) -> int:
    """List the data sets: what is there, where it comes from, how to get the rest."""
    parser = subparser(show_data, "data")
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")
    options = parser.parse_args(words)

    from dubio.data import available

    holdings = available()
    print(json.dumps(holdings.to_dicts(), indent=2) if options.json else holdings)
    return 0


def print_json(value: Any) -> None:
    """For scripts that people look at, too."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def positive(text: str) -> int:
    """Return a whole number from 1."""
    return natural(text, least=1)


def natural(text: str, least: int = 0) -> int:
    """Return a whole number from 0, or from another."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
    if number >= 2**63:  # torch has none that is larger
        raise argparse.ArgumentTypeError(f"expected a whole number below 2**63, got {text!r}")
    return number


def readable(text: str) -> str:
    """Return a text that a page or a file of JSON can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of a name in another encoding
        raise argparse.ArgumentTypeError(
            f"expected a text in UTF-8, got {text!r}; rename the file or folder"
        ) from None
    return text


def readable_path(text: str) -> Path:
    """Return a path that a page can show."""
    return Path(readable(text))


COMMANDS: dict[str, Command] = {"evaluate": evaluate_network, "data": show_data}
