"""The command line: ``dubio list | run | report | evaluate | demo | data``.

Exit codes: 0 all is well, 1 something failed, 2 the command was wrong, 130 interrupted.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dubio
from dubio.studies import catalogue
from dubio.studies.catalogue import FAMILIES, Entry, UnknownStudyError, find
from dubio.studies.options import add_options, configure
from dubio.studies.study import SCALES

RESULTS = Path("results")
EXTRAS = {"joblib", "matplotlib", "sklearn", "filelock", "threadpoolctl", "pooch"}

Command = Callable[[Sequence[str]], int]


class Failure(Exception):  # noqa: N818 - it is the command that failed
    """Ends the command with a message and exit code 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parser = root_parser()
        command = parser.parse_args(words[:1]).command
        return COMMANDS[command](words[1:])
    except SystemExit as exit_:  # argparse has said why
        return exit_.code if isinstance(exit_.code, int) else 2
    except Failure as failure:
        print(f"dubio: {failure}", file=sys.stderr)
        return 1
    except ImportError as error:
        if error.name in EXTRAS:
            print(f"dubio: this needs {error.name}; pip install 'dubio[studies]'.", file=sys.stderr)
        elif str(error).startswith("dubio."):  # the library has said which extra
            print(f"dubio: {error}", file=sys.stderr)
        else:
            raise
        return 1
    except KeyboardInterrupt:
        print("\ndubio: interrupted; what is finished is kept.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `dubio list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def root_parser() -> argparse.ArgumentParser:
    """Knows the names of the commands; each of them parses the rest by itself."""
    parser = argparse.ArgumentParser(
        prog="dubio",
        description="Networks that know what they do not know: regenerate every table and figure.",
        epilog="'dubio COMMAND --help' tells more, as does 'dubio run STUDY --help'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dubio {dubio.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        summary = (command.__doc__ or "").partition("\n")[0]
        commands.add_parser(name, help=summary, add_help=False, prefix_chars="\0")
    return parser


def subparser(command: Command, name: str, **options: Any) -> argparse.ArgumentParser:
    """A parser for one command."""
    description = (command.__doc__ or "").partition("\n")[0]
    return argparse.ArgumentParser(
        prog=f"dubio {name}", description=description, allow_abbrev=False, **options
    )


def list_studies(words: Sequence[str]) -> int:
    """List every table and figure of the papers: what there is, scales and cost."""
    parser = subparser(list_studies, "list")
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")
    if parser.parse_args(words).json:
        print_json([entry.as_dict() for entry in catalogue.ENTRIES])
        return 0
    width = max(len(entry.id) for entry in catalogue.ENTRIES)
    indent = f"  {'':<{width}}  {'':<11}  "
    for family, title in FAMILIES.items():
        print(f"\n{family}  {title}")
        for entry in catalogue.ENTRIES:
            if entry.family == family:
                print(f"  {entry.id:<{width}}  {entry.status:<11}  {entry.title}")
                print(f"{indent}{', '.join(entry.covers)}: {entry.about}")
                if entry.cost:
                    cost = ", ".join(f"{scale} {entry.cost[scale]}" for scale in SCALES)
                    print(f"{indent}takes about: {cost}")
    print("\n'dubio run STUDY' runs one, 'dubio report' makes pages of all that was run.")
    return 0


def run_study(words: Sequence[str]) -> int:
    """Run a study, or go on with it: finished pieces are never computed again."""
    parser = subparser(run_study, "run", usage="dubio run STUDY [options]")
    add = parser.add_argument
    add("study", metavar="STUDY", help="such as 000/figure-1; see 'dubio list'")
    scales = "smoke: seconds; small: minutes on two cores; paper: the full protocol [small]"
    add("--scale", choices=SCALES, default="small", help=scales)
    add("--jobs", type=positive, default=1, metavar="N", help="processes [1]")
    add("--seed", type=natural, default=0, metavar="N", help="of all noise [0]")
    engines = "local, dask, ray (on this machine), dask=ADDRESS or ray=ADDRESS [local]"
    add("--engine", default="local", metavar="ENGINE", help=engines)
    add("--output", type=Path, default=RESULTS, metavar="DIR", help=f"for the rows [{RESULTS}]")
    add("--json", action="store_true", help="say what was done as JSON")
    entry = entry_of(words, parser)
    study = entry.load() if entry else None
    if study is not None:
        add_options(parser, study.scales)
    options = parser.parse_args(words)
    assert study is not None  # else parse_args has shown help or an error

    from dubio.studies.engine import Engine, EngineError
    from dubio.studies.running import PiecesFailed, run
    from dubio.studies.store import StoreError

    try:
        config = configure(study.scales[options.scale], options)
        engine = Engine.parse(options.engine)
    except ValueError as error:
        parser.error(str(error))
    where = {"root": options.output, "engine": engine, "jobs": options.jobs}
    try:
        done = run(study, options.scale, config, seed=options.seed, **where)
    except (StoreError, EngineError, PiecesFailed) as error:
        raise Failure(error) from error
    if options.json:
        counts = {"rows": len(done.rows), "computed": done.computed, "stored": done.stored}
        print(json.dumps({"study": study.id, "folder": str(done.folder), **counts}))
    else:
        print(
            f"{study.id}: {len(done.rows)} rows in {done.folder} "
            f"({done.computed} pieces computed, {done.stored} were stored)"
        )
    return 0


def entry_of(words: Sequence[str], parser: argparse.ArgumentParser) -> Entry | None:
    """The study that is asked for; it comes first, since its options depend on it."""
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            parser.error("expected a study first, such as 'dubio run 000/figure-1'.")
        return None
    try:
        entry = find(words[0])
        if entry.status == "planned":
            entry.load()
    except UnknownStudyError as error:
        parser.error(str(error))
    return entry


def write_report(words: Sequence[str]) -> int:
    """Write a site of pages about all runs, from their stored rows alone."""
    parser = subparser(write_report, "report")
    add = parser.add_argument
    add("--rows", type=Path, default=RESULTS, metavar="DIR", help=f"the runs [{RESULTS}]")
    pages = "for the pages ['report' in that of the runs]"
    add("--output", type=Path, metavar="DIR", help=pages)
    add("--json", action="store_true", help="the verdicts as JSON")
    options = parser.parse_args(words)

    from dubio.studies.report.site import write_site
    from dubio.studies.store import StoreError

    try:
        site = write_site(options.rows, options.output or options.rows / "report")
    except StoreError as error:
        raise Failure(error) from error
    if options.json:
        print_json(site.as_dict())
    else:
        print(f"open {site.index.resolve().as_uri()}")
    for problem in site.problems:
        print(f"dubio: {problem}", file=sys.stderr)
    return 1 if site.problems else 0


def evaluate_network(words: Sequence[str]) -> int:
    """Evaluate a saved network on data: all metrics that fit, drawings and a page."""
    safety = "The model's code is run. Nothing in the state file and the data files is."
    parser = subparser(evaluate_network, "evaluate", epilog=safety)
    add = parser.add_argument
    model = "builds the network: package.module:function or file.py:function; it is run"
    add("--model", required=True, metavar="PATH:FUNCTION", help=model)
    saved = "its state_dict, of torch.save or safetensors; nothing in it is run"
    add("--state", required=True, type=Path, metavar="FILE", help=saved)
    names = "digits, mnist, fashion-mnist, notmnist, cifar10"
    files = "or a file with x and y: .npz, .pt, .safetensors"
    add("--data", required=True, metavar="DATA", help=f"{names}, {files}")
    meaning = "what outputs mean: categorical, bernoulli, gaussian=PRECISION, heteroscedastic"
    add("--likelihood", required=True, metavar="NAME", help=meaning)
    add("--draws", type=positive, default=100, metavar="N", help="passes [100]")
    add("--ood", metavar="DATA", help="foreign inputs, which should raise doubts")
    validation = "validation data: calibrated columns are added"
    add("--calibrate-with", metavar="DATA", help=validation)
    add("--batch-size", type=positive, default=256, metavar="N", help="rows at a time [256]")
    add("--seed", type=natural, default=0, metavar="N", help="of all noise [0]")
    output, pages = Path("evaluation"), "for index.html, metrics.json and drawings [evaluation]"
    add("--output", type=Path, default=output, metavar="DIR", help=pages)
    add("--json", action="store_true", help="print metrics.json")
    options = parser.parse_args(words)

    from dubio import evaluation
    from dubio.evaluation.page import prepare, text_of, write_pages

    if options.calibrate_with == options.data:
        parser.error(
            f"--calibrate-with: expected other rows than those of --data, got {options.data} for "
            "both; what is calibrated on the rows it is judged by looks better than it is"
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


def show_demo(words: Sequence[str]) -> int:
    """Train two small networks and write a page about what they do not know."""
    from dubio.demo.__main__ import main as demo

    demo(words, prog="dubio demo")
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
    """A whole number from 1."""
    return natural(text, least=1)


def natural(text: str, least: int = 0) -> int:
    """A whole number from 0, or from another."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
    return number


COMMANDS: dict[str, Command] = {
    "list": list_studies,
    "run": run_study,
    "report": write_report,
    "evaluate": evaluate_network,
    "demo": show_demo,
    "data": show_data,
}
