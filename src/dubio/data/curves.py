"""CO2 and solar irradiance: as in Gal & Ghahramani 2016, section 5.1, and as measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.data.archives import read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import DataError, extra
from dubio.data.files import File
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Extrapolation(Loaded):
    """A curve, and inputs beyond its end without targets."""

    x: Tensor  # (N, 1)
    y: Tensor  # (N, 1)
    test_x: Tensor  # (N, 1)


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Interpolation(Loaded):
    """A curve with gaps, and the observations in the gaps."""

    x: Tensor  # (N, 1)
    y: Tensor  # (N, 1)
    test_x: Tensor  # (N, 1)
    test_y: Tensor  # (N, 1)


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MonthlyCO2(Loaded):
    """Carbon dioxide at Mauna Loa, one value per month, in parts per million."""

    year: Tensor  # (N,), with decimals
    ppm: Tensor  # (N,)
    deseasonalized: Tensor  # (N,)


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class YearlyIrradiance(Loaded):
    """Total solar irradiance, one value per year, in W/m²."""

    year: Tensor  # (N,), the middle of it
    cycle: Tensor  # (N,), with the cycle of eleven years only
    total: Tensor  # (N,), with the changing background too


def _paper_dataset(name: str, title: str, cite: str) -> Dataset:
    files = tuple(
        published(f"dropout-paper-regression/{name}_{part}.h5") for part in ("train", "test")
    )
    return Dataset(
        name=name,
        title=title,
        licence="MIT",
        cite=f"Gal & Ghahramani 2016; {cite}",
        page="https://github.com/yaringal/DropoutUncertaintyCaffeModels",
        forms=(Form("original HDF5 files", files),),
    )


_CO2 = _paper_dataset("co2", "Mauna Loa CO2 of the dropout paper", "Keeling et al. 2004")
_SOLAR = _paper_dataset("solar", "Solar irradiance of the dropout paper", "Lean 2004")
_MONTHLY = Dataset(
    name="co2-monthly",
    title="Mauna Loa CO2, monthly",
    licence="public; terms in the head of the file",
    cite="NOAA Global Monitoring Laboratory; Scripps Institution of Oceanography",
    page="https://gml.noaa.gov/ccgg/trends/",
    forms=(
        Form(
            "NOAA's file of another day",
            (File("mauna-loa-co2/co2_mm_mlo_latest.txt"),),
            by_hand="for months after May 2025 save "
            "https://gml.noaa.gov/webdata/ccgg/trends/co2/co2_mm_mlo.txt as "
            "mauna-loa-co2/co2_mm_mlo_latest.txt; it changes every month, so nothing checks it",
        ),
        Form("NOAA's file of 2025-06-05", (published("mauna-loa-co2/co2_mm_mlo.txt"),)),
    ),
)
_YEARLY = Dataset(
    name="solar-yearly",
    title="Solar irradiance, yearly",
    licence="numbers of J. Lean (NRL): cite",
    cite="Lean 2000 (GRL 27); Wang, Lean & Sheeley 2005 (ApJ 625)",
    page="https://www.ncei.noaa.gov/access/paleo-search/",
    forms=(
        Form(
            "NOAA's lean2000_irradiance.txt, 1610 to 2000, with the background of Lean 2000",
            (File("solar-irradiance/lean2000_irradiance.txt"),),
            by_hand="save lean2000_irradiance.txt of NOAA Paleoclimatology (climate_forcing/"
            "solar_variability) as solar-irradiance/lean2000_irradiance.txt",
        ),
        Form(
            "the later revision, 1610 to 2008, with the background of Wang et al. 2005",
            (published("solar-irradiance/tsi_lean2000_wls2005_1610_2008.csv"),),
            faithful=False,
        ),
    ),
)
DATASETS = (_CO2, _MONTHLY, _SOLAR, _YEARLY)


def co2() -> Extrapolation:
    """Load CO2 as in Gal & Ghahramani 2016, figure 2: 272 months and 1000 inputs beyond.

    Inputs are standardised, targets linearly detrended and standardised. The file of the test
    inputs also holds labels, all of one value: placeholders, which are not loaded.
    """
    copy = _CO2.locate()
    (x, y), (test_x, _) = map(_read_h5, copy.paths)
    return Extrapolation(source=copy.source, x=x, y=y, test_x=test_x)


def solar() -> Interpolation:
    """Load solar irradiance as in Gal & Ghahramani 2016: 275 years with five gaps of 20 years.

    The gaps hold 100 further years. Inputs and targets are standardised over all 375 years.
    """
    copy = _SOLAR.locate()
    (x, y), (test_x, test_y) = map(_read_h5, copy.paths)
    return Interpolation(source=copy.source, x=x, y=y, test_x=test_x, test_y=test_y)


def co2_monthly() -> MonthlyCO2:
    """Load CO2 at Mauna Loa since March 1958; missing months are interpolated by NOAA."""
    copy = _MONTHLY.locate()
    values = _numbers(copy.paths[0], columns=8)
    months = values[:, 0] * 12 + values[:, 1]
    if not (np.diff(months) == 1).all() or months[0] != 1958 * 12 + 3:
        raise DataError(f"{copy.paths[0]}: expected every month since 1958-03; get it again")
    year, ppm, deseasonalized = torch.from_numpy(values[:, 2:5]).unbind(1)
    return MonthlyCO2(source=copy.source, year=year, ppm=ppm, deseasonalized=deseasonalized)


def solar_yearly() -> YearlyIrradiance:
    """Load reconstructed solar irradiance since 1610."""
    copy = _YEARLY.locate()
    values = _numbers(copy.paths[0], columns=3)
    if not (np.diff(values[:, 0]) == 1).all() or values[0, 0] != 1610.5:
        raise DataError(f"{copy.paths[0]}: expected every year since 1610; get it again")
    year, cycle, total = torch.from_numpy(values).unbind(1)
    return YearlyIrradiance(source=copy.source, year=year, cycle=cycle, total=total)


def _read_h5(path: Path) -> tuple[Tensor, Tensor]:
    with extra("h5py").File(path, "r") as file:
        x, y = (torch.from_numpy(file[key][:]).double() for key in ("data", "label"))
    return x, y


def _numbers(path: Path, columns: int) -> npt.NDArray[np.float64]:
    """Return the lines of a text that hold so many numbers and nothing else."""
    rows = []
    for line in read_bytes(path).decode("ascii").replace(",", " ").splitlines():
        words = line.split()
        try:
            row = [float(word) for word in words]
        except ValueError:
            continue
        if len(row) == columns:
            rows.append(row)
    if not rows:
        raise DataError(f"{path}: expected lines of {columns} numbers, got none; get it again")
    return np.array(rows)
