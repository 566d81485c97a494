"""The report: complete, self-contained and honest about what is missing; seen by a browser."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import practice
from dubio import cli
from dubio_studies import catalogue
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.running import run
from dubio_studies.framework.store import read_recipe, read_rows
from dubio_studies.report.results import Progress, read_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VOID = {"meta", "link", "br", "img", "hr", "input", "use", "path", "rect", "line", "stop"}


class Page(HTMLParser):
    """Checks that elements nest, and collects ids, addresses and figures without a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.silent = 0
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fields = dict(attrs)
        self.ids += [fields["id"] or ""] if "id" in fields else []
        self.addresses += [v or "" for k, v in attrs if k in ("href", "src")]
        if tag in ("svg", "img") and not (fields.get("aria-label") or fields.get("alt")):
            self.silent += 1
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag


def report(root: Path) -> list[str]:
    """The command that writes the pages beside the rows."""
    return ["report", "--rows", str(root), "--output", str(root / "report")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The report of smoke runs of the first study and of the practice study."""
    root = tmp_path_factory.mktemp("results")
    figure = catalogue.find("boluki2020/figure-1").load()
    for study in (figure, practice.STUDY):
        run(study, "smoke", study.computation.scales["smoke"], root=root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "ENTRIES", [*catalogue.ENTRIES, practice.ENTRY])
        assert cli.main(report(root)) == 0
    return root / "report"


def test_pages_are_whole_and_need_nothing_else(site: Path) -> None:
    names = {path.name for path in site.iterdir()}
    pages = {"index.html", "ledger.html"}
    assert names == {*pages, "boluki2020-figure-1.html", "gal2016-practice.html"}
    for path in site.iterdir():
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        assert "$" not in text
        assert len(page.ids) == len(set(page.ids))
        assert page.silent == 0
        for address in page.addresses:
            local = address.startswith(("#", "data:")) or (site / address).exists()
            assert local, address
        assert not re.search(r"https?:|@import|<script|\burl\((?!#)", text)


def test_the_overview_shows_every_entry(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    for entry in catalogue.ENTRIES:
        assert entry.id.replace("/", "-") in page.ids
        assert entry.id in text
    for word in ("nothing to compute", "undecided", "scale: smoke"):
        assert word in text


def test_a_study_page_tells_claim_command_scale_and_deviations(site: Path) -> None:
    text = (site / "boluki2020-figure-1.html").read_text(encoding="utf-8")
    study = catalogue.find("boluki2020/figure-1").load()
    assert "dubio run boluki2020/figure-1 --scale smoke --seed 0" in text
    assert "samples: 20 instead of 200" in text
    for part in ("has no bias", "panels (a) to (f)", "not public", "scale: smoke", "torch 2."):
        assert part in text
    assert text.count('class="claim ') == len(study.page.claims)
    practice_page = (site / "gal2016-practice.html").read_text(encoding="utf-8")
    assert "Dice &lt;roll&gt;." in practice_page
    assert "Dice &lt;&amp;&gt;" in practice_page
    assert "<td><b>2</b></td>" in practice_page


def test_verdicts_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", practice.ID, "--output", str(tmp_path)]
    assert cli.main([*words, "--scale", "smoke"]) == 0
    assert cli.main([*words, "--seed", "3"]) == 0
    assert cli.main([*words, "--size", "2"]) == 0
    assert cli.main(words) == 0
    capsys.readouterr()
    assert cli.main([*report(tmp_path), "--json"]) == 0
    studies = {s["id"]: s for s in json.loads(capsys.readouterr().out)["studies"]}
    assert studies["boluki2020/figure-1"]["status"] == "not run"
    assert studies["clark2022/figure-5"]["status"] == "nothing to compute"
    assert studies[practice.ID]["status"] == "holds"
    # the largest scale, as it comes
    assert studies[practice.ID]["command"] == f"dubio run {practice.ID} --scale small --seed 0"
    page = (tmp_path / "report" / "gal2016-practice.html").read_text(encoding="utf-8")
    for other in ("--scale smoke --seed 0", "--seed 3", "--size 2"):
        assert other in page


def test_damaged_rows_are_named_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", practice.ID, "--output", str(tmp_path)]) == 0
    (rows,) = tmp_path.rglob("rows.jsonl")
    rows.write_text("garbage\n")
    assert cli.main(report(tmp_path)) == 1
    assert str(rows) in capsys.readouterr().err
    assert rows.read_text() == "garbage\n"  # a report changes nothing
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.parametrize("part", ["exhibits", "claims"])
def test_rows_that_do_not_fit_cost_their_own_page_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
) -> None:
    for study in (catalogue.find("herlau2022/figure-1b").load(), practice.STUDY):
        run(study, "smoke", study.computation.scales["smoke"], root=tmp_path)

    def fails(rows: Rows) -> Finding:
        raise KeyError("a method that is new")

    changes = {"exhibits": fails, "claims": [Claim("", "", "", fails)]}
    changed = dataclasses.replace(practice.STUDY.page, **{part: changes[part]})
    monkeypatch.setattr(practice.page, "PAGE", changed)
    assert cli.main(report(tmp_path)) == 1
    message = capsys.readouterr().err
    assert f"{practice.ID}" in message
    assert "its rows do not fit the code of the study" in message
    assert "a method that is new" in message
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"index.html", "ledger.html", "herlau2022-figure-1b.html"}


def test_a_report_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "none"
    assert cli.main(report(place)) == 1
    assert "expected a folder with runs" in capsys.readouterr().err
    place.mkdir()
    assert cli.main(report(place)) == 1
    assert f"got {place}, which has none" in capsys.readouterr().err
    assert cli.main(["run", practice.ID, "--output", str(place / "too")]) == 0
    assert cli.main(report(place)) == 1  # one folder too high


def test_a_run_that_was_interrupted_shows_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", practice.ID, "--output", str(tmp_path), "--size", "85"]
    assert cli.main([*words, "--fail", "4"]) == 1  # 84 of 85 are kept
    (folder,) = (tmp_path / practice.ID).iterdir()
    for piece in sorted((folder / "pieces").iterdir())[4:]:
        piece.unlink()
    capsys.readouterr()
    assert cli.main([*report(tmp_path), "--json"]) == 0
    studies = {s["id"]: s for s in json.loads(capsys.readouterr().out)["studies"]}
    assert studies[practice.ID]["status"] == "started"
    found = {"scale": "small", "seed": 0, "done": 4, "total": 85}
    assert studies[practice.ID]["started"] == [found]
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "Not finished at scale small: 4/85 pieces are done." in text
    assert cli.main(["run", practice.ID, "--output", str(tmp_path), "--scale", "smoke"]) == 0
    assert cli.main(["report", practice.ID, *report(tmp_path)[1:]]) == 0
    page = (tmp_path / "report" / "gal2016-practice.html").read_text(encoding="utf-8")
    assert "4/85" in page  # beside the run that is shown


def test_a_report_loads_the_studies_that_were_run_and_no_other(tmp_path: Path) -> None:
    herlau = ["herlau2022/figure-1b", "--output", str(tmp_path), "--scale", "smoke"]
    assert cli.main(["run", *herlau]) == 0
    for words in (report(tmp_path), ["report", "herlau2022/figure-1b", *report(tmp_path)[1:]]):
        check = (
            f"import sys; from dubio import cli; assert cli.main({words!r}) == 0\n"
            "loaded = [m for m in sys.modules if m.startswith('dubio_studies.')]\n"
            "print([m for m in loaded if m.endswith(('.computation', '.page'))])"
        )
        finished = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.splitlines()[-1] == str(
            [f"dubio_studies.herlau2022.figure_1b.{part}" for part in ("computation", "page")]
        )


def test_one_bad_folder_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that the config of today refuses, a run of another study, a run without a piece."""
    assert cli.main(["run", practice.ID, "--output", str(tmp_path)]) == 0
    (good,) = (tmp_path / practice.ID).iterdir()
    recipe = read_recipe(good)
    names = []
    for change in ({"settings": {**recipe.settings, "size": 0}}, {"study": "gal2016/table-1"}):
        other = dataclasses.replace(recipe, **change)
        folder = good.parent / f"small-{other.hash}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(other.as_dict()))
        names.append(folder.name)
    assert cli.main(["run", practice.ID, "--output", str(tmp_path), "--seed", "9"]) == 0
    cut = good.parent / f"small-{dataclasses.replace(recipe, seed=9).hash}"
    lines = (cut / "rows.jsonl").read_text().splitlines(keepends=True)
    (cut / "rows.jsonl").write_text("".join(lines[5:]))  # the first piece is gone, whole
    names.append(cut.name)
    capsys.readouterr()
    for words in (report(tmp_path), ["report", practice.ID, *report(tmp_path)[1:]]):
        assert cli.main([*words, "--json"]) == 1
        captured = capsys.readouterr()
        shown = {s["id"]: s for s in json.loads(captured.out)["studies"]}[practice.ID]
        assert shown["status"] == "holds"
        assert shown["command"].endswith("--scale small --seed 0")
        for name in names:
            assert captured.err.count(name) == 1
        assert "expected rows of 5 pieces, got none of 1 of them" in captured.err


def test_a_run_without_its_recipe_and_the_page_of_an_earlier_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", practice.ID, "--output", str(tmp_path)]) == 0
    assert cli.main(report(tmp_path)) == 0
    page = tmp_path / "report" / "gal2016-practice.html"
    assert page.exists()
    (recipe,) = tmp_path.rglob("run.json")
    recipe.unlink()
    capsys.readouterr()
    assert cli.main(report(tmp_path)) == 1
    assert f"{recipe}: No such file" in capsys.readouterr().err
    assert not page.exists()
    index = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "No such file" in index


def test_rows_of_pieces_that_a_study_no_longer_has_are_left_out(tmp_path: Path) -> None:
    computation = practice.STUDY.computation
    run(practice.STUDY, "small", computation.scales["small"], root=tmp_path)
    fewer = dataclasses.replace(computation, pieces=lambda config: computation.pieces(config)[1:])
    (folder,) = (tmp_path / practice.ID).iterdir()
    found = read_run(dataclasses.replace(practice.STUDY, computation=fewer), folder)
    assert not isinstance(found, Progress)
    whole = read_rows(folder)
    assert whole is not None
    assert set(whole.distinct("piece")) - set(found.rows.distinct("piece")) == {whole[0]["piece"]}


def test_one_study_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = catalogue.find("herlau2022/figure-1b").load()
    run(study, "smoke", study.computation.scales["smoke"], root=tmp_path)
    assert cli.main(["report", practice.ID, *report(tmp_path)[1:]]) == 1
    assert "expected a finished run" in capsys.readouterr().err


def test_rows_under_a_former_id_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("002/table-1", "nobody/table-9"):
        folder = tmp_path / name / "small-00000000"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    assert cli.main(report(tmp_path)) == 1
    message = capsys.readouterr().err
    assert str(tmp_path / "002" / "table-1") in message
    assert "now called gal2016/table-1" in message
    assert str(tmp_path / "nobody" / "table-9") in message


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize(
    "study", ["gal2016/table-1", "gal2016/solar", "gal2017/mnist", "clark2022/figure-20-21"]
)
def test_tables_fit_a_page_of_1280_pixels(study: str, tmp_path: Path) -> None:
    """The widest tables of the stored runs: none is cut, none needs to scroll."""
    rows = Path(__file__).parents[2] / "results"
    assert cli.main(["report", study, "--rows", str(rows), "--output", str(tmp_path)]) == 0
    name = study.replace("/", "-")
    found = seen_by_chromium(
        tmp_path / f"{name}.html",
        1280,
        """[...page.querySelectorAll(".scroll")]
        .map(s => `${s.scrollWidth},${s.clientWidth}`).join(" ")""",
        tmp_path,
    )
    widths = [tuple(map(int, pair.split(","))) for pair in found.split()]
    assert widths
    for content, box in widths:
        assert content <= box


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["index.html", "boluki2020-figure-1.html"])
def test_in_a_browser(name: str, width: int, site: Path, tmp_path: Path) -> None:
    """No message on the console, nothing wider than the screen, drawings with an area."""
    found = seen_by_chromium(
        site / name,
        width,
        """(boxes => `${page.documentElement.scrollWidth} ${boxes.length} ${
          boxes.filter(b => b.width > 200 && b.height > 200).length}`)(
          [...page.querySelectorAll("svg")].map(s => s.getBoundingClientRect()))""",
        tmp_path,
    )
    scroll_width, drawings, seen = map(int, found.split())
    assert scroll_width <= width
    assert seen == drawings // 2  # each is drawn for a wide and for a narrow screen
    assert (drawings > 0) == (name != "index.html")


def seen_by_chromium(address: Path, width: int, question: str, folder: Path) -> str:
    """The value of a JavaScript expression of ``page``, the document in a frame of this width."""
    probe = folder / "probe.html"
    probe.write_text(
        f"""<!doctype html><title>probe</title><body><script>
        const frame = document.createElement("iframe");
        frame.width = {width}; frame.height = 900; frame.src = "{address.as_uri()}";
        frame.onload = () => {{
          const page = frame.contentDocument;
          document.body.dataset.found = {question};
        }};
        document.body.append(frame);
        </script>""",
        encoding="utf-8",
    )
    assert CHROMIUM is not None
    finished = subprocess.run(
        [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *(f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files"),
            *("--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"),
            probe.as_uri(),
        ],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert "CONSOLE" not in finished.stderr, finished.stderr
    found = re.search(r'data-found="([^"]*)"', finished.stdout)
    assert found, finished.stdout[-500:]
    return found[1]
