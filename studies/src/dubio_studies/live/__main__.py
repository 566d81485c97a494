"""``python -m dubio_studies.live``: train the networks of the page; write what tests it."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import dubio
from dubio_studies.live import digits, foragers
from dubio_studies.live.fixtures import curve_fixture, network_fixture, noise_fixture
from dubio_studies.live.graphs import export_small
from dubio_studies.live.shirts import shirts

PIXELS, SENSES = 28 * 28, 27


def write_digits(models: Path, fixtures: Path) -> None:
    """Networks that read digits, what is known of them, and pictures that are no digits."""
    known: dict[str, Any] = {}
    for reader in digits.readers():
        network, example = reader.network, torch.zeros(2, PIXELS)
        if reader.method == "mc":  # zeros and ones come in, so that a page can choose the rate
            network = dubio.freeze(network, example=example)
        export_small(network, example, models / f"{reader.method}.onnx")
        functions = reader.method != "bayes"  # whose local noise has none
        fixture = network_fixture(network, PIXELS, functions=functions)
        write(fixtures / f"{reader.method}.json", fixture)
        known[reader.method] = {
            "drop": reader.drop,
            "score": reader.deferral.score,
            "threshold": float(reader.deferral.threshold),
            "accuracy": reader.accuracy,
            "answered": reader.answered,
            "wrong": reader.wrong,
        }
        print(reader.method, known[reader.method], flush=True)
    rule = {"error_rate": digits.ERROR_RATE, "confidence": digits.CONFIDENCE}
    training = {"images": digits.SETTINGS.images, "epochs": digits.SETTINGS.epochs}
    write(models / "digits.json", {**rule, **training, "methods": known, "shirts": shirts()})


def write_foragers(models: Path, fixtures: Path) -> None:
    """Agents, and what they have earned."""
    known: dict[str, Any] = {}
    for agent in (foragers.newborn(), foragers.grown()):
        export_small(agent.network, torch.zeros(2, SENSES), models / f"forager-{agent.name}.onnx")
        fixture = network_fixture(agent.network, SENSES)
        write(fixtures / f"forager-{agent.name}.json", fixture)
        known[agent.name] = {"ticks": agent.ticks, "reward": agent.reward, "drop": agent.drop}
        print(agent.name, known[agent.name], flush=True)
    write(models / "foragers.json", known)


def write_numbers(models: Path, fixtures: Path) -> None:
    """What needs no network that was trained before: random numbers, and curves."""
    write(fixtures / "noise.json", noise_fixture())
    write(fixtures / "curve.json", curve_fixture())


def write(file: Path, value: Any) -> None:
    """As JSON on one line."""
    file.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")


PARTS = {"digits": write_digits, "foragers": write_foragers, "numbers": write_numbers}


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m dubio_studies.live", description=__doc__)
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all of them if none")
    add("--web", type=Path, default=Path("web"), help="the folder of the page [web]")
    options = parser.parse_args(words)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    models, fixtures = options.web / "models", options.web / "fixtures"
    if not options.web.is_dir():
        parser.error(f"--web: expected a folder, got {options.web}, which is none")
    models.mkdir(exist_ok=True)
    fixtures.mkdir(exist_ok=True)
    for part in options.parts or PARTS:
        PARTS[part](models, fixtures)


if __name__ == "__main__":
    main()
